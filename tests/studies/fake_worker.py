"""A worker that trains nothing: it does what the method's focusing parameter says.

It replaces `tailmask.studies.worker`, whose imports take seconds, in tests about studies. A run of
`focal:gamma=G` fails for G = 91, breaks for 92, is killed for 93, and waits for an interrupt for 94; all
others are complete at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def emit(event: dict) -> None:
    print(json.dumps(event), flush=True)


def finish(task: dict) -> None:
    folder = Path(task["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    record = {"threads": task["threads"], "omp": os.environ["OMP_NUM_THREADS"], "pid": os.getpid()}
    record["gpus"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    (folder / "run.json").write_text(json.dumps(record))
    summary = {"summary": {"f1": 0.5}}
    (folder / "metrics.json").write_text(json.dumps({"test": summary, "validation": summary}))
    emit({"event": "done", "answer": {}})


def main() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        if task["kind"] == "check":
            if "missing" in (task["data"], task["options"].get("data_dir")):
                emit(
                    {
                        "event": "failed",
                        "text": f"there is no data set called {task['data']!r}",
                        "of_data": True,
                    }
                )
                continue
            emit({"event": "note", "text": "no training sample has the label b"})
            facts = {"source": {}, "classes": ["a", "b"], "shape": [4]}
            facts |= {"single_label": False, "has_validation": True}
            emit({"event": "done", "answer": facts})
            continue
        emit({"event": "step", "epochs": 0.5, "total": 2, "loss": 1.0})
        gamma = task["config"]["method"].rpartition("=")[2]
        if gamma == "91":
            emit({"event": "failed", "text": "the loss became NaN"})
        elif gamma == "92":
            print("a traceback", file=sys.stderr)
            emit({"event": "broken", "text": "TypeError: no"})
        elif gamma == "93":
            os.kill(os.getpid(), signal.SIGKILL)
        elif gamma == "94":
            try:
                emit({"event": "note", "text": f"waiting in {os.getpid()}"})
                time.sleep(60)
            except KeyboardInterrupt:
                Path(task["folder"]).parent.mkdir(parents=True, exist_ok=True)
                Path(task["folder"]).with_suffix(".interrupted").touch()
                break
        else:
            emit({"event": "note", "text": "worth knowing"})
            finish(task)


if __name__ == "__main__":
    main()
