"""The log of a healthy boot, which no issue may claim."""

from __future__ import annotations

HEALTHY = """INFO Resolved architecture: Gemma4ForConditionalGeneration
INFO Using max model len 2048
INFO Initializing a V1 LLM engine (v0.32.0) with config
INFO Starting to load model /tiny-gemma4...
INFO Loading weights took 0.02 seconds
INFO GPU KV cache size: 98,304 tokens
INFO Using 'MARLIN' NvFp4 MoE backend
INFO Starting vLLM server on http://0.0.0.0:8000
INFO: Application startup complete.
WARNING libcuda.so.1: cannot open shared object file: No such file or directory""".splitlines()
