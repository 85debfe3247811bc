"""Partial Label Masking written slowly, in NumPy with loops: what every fast path is held against.

It shares no code with the package and follows the paper's text from top to bottom.
"""

from __future__ import annotations

import math

import numpy as np

EPS = 1e-7


def class_ratio(targets):
    ratios = []
    for column in targets.T:
        positives = sum(1 for label in column if label == 1)
        negatives = sum(1 for label in column if label == 0)
        ratios.append(positives / negatives)
    return np.array(ratios)


def keep_probability(label, class_ratio, target_ratio):
    """Eq. 3: with which probability the mask of this label is one."""
    if class_ratio > target_ratio and label == 1:
        return target_ratio / class_ratio
    if class_ratio < target_ratio and label == 0:
        return class_ratio / target_ratio
    return 1.0


def histogram(probabilities, targets, num_bins, known=None):
    """Appendix: bins of width 1/τ, the last one closed; for both labels of every class."""
    num_samples, num_classes = probabilities.shape
    counts = np.zeros((2, num_classes, num_bins), dtype=np.int64)
    for i in range(num_samples):
        for c in range(num_classes):
            if known is not None and not known[i, c]:
                continue
            label = 1 if targets[i, c] >= 0.5 else 0
            # The edges as float32 products, since that is what the outputs are.
            position = np.float32(probabilities[i, c]) * np.float32(num_bins)
            counts[label, c, min(math.floor(position), num_bins - 1)] += 1
    return counts


def divergence(counts):
    """Eq. 5: KL of the predicted from the true distribution, whose zeros are lifted to EPS."""
    num_classes, num_bins = counts.shape[1:]
    result = np.full((2, num_classes), np.nan)
    for label in (0, 1):
        truth = np.zeros(num_bins)
        truth[num_bins - 1 if label == 1 else 0] = 1.0
        for c in range(num_classes):
            total = counts[label, c].sum()
            if total == 0:
                continue
            predicted = counts[label, c] / total
            value = 0.0
            for p_hat, p in zip(predicted, truth, strict=True):
                if p_hat > 0:
                    value += p_hat * math.log(p_hat / max(p, EPS))
            result[label, c] = value
    return result


def normalize(divergences):
    """Eq. 6, over the classes that have both divergences."""
    complete = [c for c in range(divergences.shape[1]) if np.isfinite(divergences[:, c]).all()]
    result = np.full_like(divergences, np.nan)
    for label in (0, 1):
        values = [divergences[label, c] for c in complete]
        if not values:
            continue
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        for c in complete:
            flat = deviation <= 1e-6 * max(abs(value) for value in values)
            result[label, c] = 0.0 if flat else (divergences[label, c] - mean) / deviation
    return result


def prevalence_gap(counts, shrinkage):
    """Each class's log share of true less predicted positives, averaged with the mean by its evidence."""
    _, num_classes, num_bins = counts.shape
    gaps, weights = [], []
    for c in range(num_classes):
        present = sum(counts[1, c])
        predicted = sum(counts[0, c, num_bins // 2 :]) + sum(counts[1, c, num_bins // 2 :])
        gaps.append(min(1.0, max(-1.0, math.log((present + 0.5) / (predicted + 0.5)))))
        evidence = max(present, predicted)
        weights.append(evidence / (evidence + shrinkage) if evidence or shrinkage else 1.0)
    total = sum(weights)
    mean = sum(w * g for w, g in zip(weights, gaps, strict=True)) / total if total else 0.0
    return [w * g + (1 - w) * mean for w, g in zip(weights, gaps, strict=True)]


def next_ratio(target_ratio, counts, rate):
    """Eq. 7 for all classes: one epoch's update."""
    scores = normalize(divergence(counts))
    result = []
    for c, ratio in enumerate(target_ratio):
        gap = scores[1, c] - scores[0, c]
        result.append(ratio if math.isnan(gap) else math.exp(rate * gap) * ratio)
    return np.array(result)


def masked_loss(logits, targets, mask):
    """Eq. 2 with binary cross-entropy, summed over classes, for each sample."""
    losses = []
    for i in range(logits.shape[0]):
        total = 0.0
        for c in range(logits.shape[1]):
            probability = 1 / (1 + math.exp(-logits[i, c]))
            likelihood = targets[i, c] * math.log(probability) + (1 - targets[i, c]) * math.log(
                1 - probability
            )
            total += -mask[i, c] * likelihood
        losses.append(total)
    return np.array(losses)
