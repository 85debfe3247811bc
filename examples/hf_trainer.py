"""Partial Label Masking in Hugging Face's Trainer, on texts with several labels each.

    python examples/hf_trainer.py [train.tsv]

The file is in GoEmotions' format: a text, the numbers of its labels and an id, separated by tabs. Without a
file, texts are made up. BERT is tiny and has random weights. PLM has the form that we recommend.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tailmask import PartialLabelMasking
from tailmask.integrations.transformers import PLMTrainerCallback, plm_loss
from tailmask.metrics import evaluate

if sys.argv[1:]:
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
else:  # five moods, from frequent to rare; each has a word that also occurs without the mood
    draw = np.random.default_rng(0)
    moods = draw.random((1200, 5)) < [0.5, 0.3, 0.15, 0.08, 0.05]
    heard = draw.random((1200, 5)) < np.where(moods, 0.9, 0.08)
    texts = (" ".join(np.array(["yay", "aw", "ugh", "wow", "eek"])[row]) for row in heard)
    labels = (",".join(map(str, row.nonzero()[0])) or "5" for row in moods)
    lines = [f"well {text}\t{label}\tid" for text, label in zip(texts, labels, strict=True)]
texts, labels, _ = zip(*(line.split("\t") for line in lines), strict=True)
columns = [[int(number) for number in row.split(",")] for row in labels]
targets = torch.zeros(len(texts), 1 + max(map(max, columns)))
for row, present in enumerate(columns):
    targets[row, present] = 1.0

special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
words = Tokenizer(models.WordLevel(unk_token=special["unk_token"]))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=[*special.values()]))
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special)
encoded = (tokenizer(f"[CLS] {text}", truncation=True, max_length=32) for text in texts)
rows = [{**tokens, "labels": label} for tokens, label in zip(encoded, targets.tolist(), strict=True)]
train, held_out, test = (slice(len(rows) * a // 4, len(rows) * b // 4) for a, b in ((0, 2), (2, 3), (3, 4)))

shape = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
others = {"vocab_size": len(tokenizer), "pad_token_id": 1, "initializer_range": 0.2}
config = transformers.BertConfig(num_labels=targets.shape[1], **shape, **others)
options = {"num_train_epochs": 8, "learning_rate": 1e-3, "save_strategy": "no", "report_to": "none"}
arguments = transformers.TrainingArguments("runs", eval_strategy="epoch", disable_tqdm=True, **options)
for name, rate in {"BCE": 0.0, "PLM": None}.items():  # at a rate of 0, nothing is ever masked
    transformers.set_seed(0)
    model = transformers.BertForSequenceClassification(config)
    criterion = PartialLabelMasking.from_targets(targets[train], adapt="prevalence", rate=rate, epochs=8)
    callback = PLMTrainerCallback(criterion, statistics="validation")  # evaluations move the ratios
    plm = {"compute_loss_func": plm_loss(criterion), "callbacks": [callback], "processing_class": tokenizer}
    trainer = transformers.Trainer(model, arguments, None, rows[train], rows[held_out], **plm)
    trainer.train()
    f1 = evaluate(torch.from_numpy(trainer.predict(rows[test])[0]), targets[test]).per_class["f1"]
    print(f"{name}: F1 of each label {' '.join(f'{value:.2f}' for value in f1)}, mean {f1.mean():.3f}")
