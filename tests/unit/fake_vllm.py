"""A wheel with the sources of a very small vLLM: command line, log messages, variables."""

from __future__ import annotations

import zipfile
from pathlib import Path

ARG_UTILS = '''
import argparse, json
from typing import TYPE_CHECKING, Any, Literal, get_args
from vllm.config import KernelConfig, ModelConfig, SpeculativeConfig, VllmConfig
from vllm.config.model import LogLevel

class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        model_kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="ModelConfig")
        group.add_argument("--quantization", "-q", **model_kwargs["quantization"])
        group.add_argument("--dtype", **model_kwargs["dtype"])
        group.add_argument("--max-model-len", **model_kwargs["max_model_len"])
        group.add_argument("--max-num-batched-tokens", **model_kwargs["max_model_len"])
        group.add_argument("--gpu-memory-utilization", **model_kwargs["share"])
        group.add_argument("--enforce-eager", **{**model_kwargs["enforce_eager"], "default": None})
        group.add_argument("--hf-token", **model_kwargs["hf_token"])
        group.add_argument("--allowed-media-domains", **model_kwargs["domains"])
        group.add_argument("--attention-backend", **model_kwargs["backend"])
        group.add_argument("--reasoning-parser", **model_kwargs["parser"])
        group.add_argument("--log-level", choices=get_args(LogLevel))
        moe_kwargs = get_kwargs(KernelConfig)["moe_backend"]
        group.add_argument("--moe-backend", **moe_kwargs)
        vllm_kwargs = get_kwargs(VllmConfig)
        group.add_argument("--speculative-config", "-sc", **vllm_kwargs["speculative_config"])
        group.add_argument("--optimization-level", type=int)
        group.add_argument("--disable-log-stats", action="store_true")
        group.add_argument("--gdn-backend", choices=["flashinfer", "triton"], default=None)
        return parser

class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--enable-log-requests", action=argparse.BooleanOptionalAction)
'''
MODEL = '''
from enum import Enum
from typing import Literal, TYPE_CHECKING, Annotated
if TYPE_CHECKING:
    from .quantization import QuantizationMethods
else:
    QuantizationMethods = object
LogLevel = Literal["DEBUG", "INFO"]
Half = Literal["half", "float16"]
class Backend(Enum):
    FLASH_ATTN = "a"
    TRITON_ATTN = "b"
@config
class BaseConfig:
    max_model_len: Annotated[int, Field(gt=0)] | None = None
@config
class ModelConfig(BaseConfig):
    quantization: QuantizationMethods | str | None = None
    dtype: "Half | torch.dtype" = "half"
    share: float = 0.9
    enforce_eager: bool = False
    hf_token: bool | str | None = None
    domains: list[str] | None = None
    backend: Backend | None = None
    parser: str = ""
@config
class KernelConfig:
    moe_backend: Literal["auto", "marlin", Half] = "auto"
@config
class SpeculativeConfig:
    method: Literal["mtp", "eagle3"] | None = None
    model: str | None = None
    num_speculative_tokens: int = 0
    parallel_drafting: bool = False
@config
class VllmConfig:
    speculative_config: SpeculativeConfig | None = None
'''
CLI = '''
class BaseFrontendArgs:
    tool_call_parser: str | None = None
    enable_auto_tool_choice: bool = False
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000
''' + "".join(f"    more_{number}: int = 0\n" for number in range(40)) + '''
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--headless", action="store_true")
'''
LOG = '''
import os
logger.info("Using %s MoE backend with %d experts", name, count)
logger.info_once(f"GPU KV cache size: {tokens:,} tokens")
raise ValueError("Gemma 4 has two head sizes, forcing TRITON_ATTN "
                 "backend")
a = os.environ["VLLM_SPACE"], envs.MAX_JOBS, MARLIN
'''
FILES = {
    "vllm/__init__.py": "", "vllm/engine/arg_utils.py": ARG_UTILS, "vllm/worker.py": LOG,
    "vllm/config/__init__.py":
        "from vllm.config.model import KernelConfig, ModelConfig, SpeculativeConfig, VllmConfig\n",
    "vllm/config/model.py": MODEL,
    "vllm/config/quantization.py":
        'from typing import Literal\nQuantizationMethods = Literal["fp8", "modelopt"]\n',
    "vllm/entrypoints/openai/cli_args.py": CLI,
    "vllm/tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"gemma4": 1, "hermes": 2}\n',
    "vllm/reasoning/__init__.py": '_REASONING_PARSERS_TO_REGISTER = {"gemma4": 1}\n',
}


def wheel(folder: Path, name: str = "vllm-0.20.2-py3-none-any.whl", **changed: str) -> Path:
    """Write the wheel; ``changed`` replaces files: ``worker`` for ``vllm/worker.py``."""
    files = {**FILES, **{f"vllm/{key.replace('__', '/')}.py": text
                         for key, text in changed.items()}}
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path
