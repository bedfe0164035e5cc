"""What ``nvidia-smi`` prints: the short table, rows of ``--query-gpu``, and the long ``-q``.

The rows are the best source, but a driver refuses them as a whole where it lacks one of the fields,
and then ``-q`` says the same in the words of any driver.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from enum import IntFlag

from builder.doctor.reading import GPU_FIELDS
from builder.model import Frozen

MIB = 1 << 20
GB10, GB10_NAME = "12.1", "GB10"  # `-q` of many drivers gives no compute capability
NOT_GIVEN = ("", "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[Insufficient Permissions]")
CONTAINER = re.compile(r"\b([0-9a-f]{64})\b")


class Slowdown(IntFlag):
    """Bits of ``clocks_event_reasons.active`` that mean a fault (NVML's nvmlClocksEventReasons)."""

    HARDWARE = 0x8
    SOFTWARE_THERMAL = 0x20
    HARDWARE_THERMAL = 0x40
    POWER_BRAKE = 0x80


# The same, as `-q` calls them under "Clocks Event Reasons" ("Clocks Throttle Reasons" of before).
REASONS = {"HW Slowdown": Slowdown.HARDWARE, "SW Thermal Slowdown": Slowdown.SOFTWARE_THERMAL,
           "HW Thermal Slowdown": Slowdown.HARDWARE_THERMAL,
           "HW Power Brake Slowdown": Slowdown.POWER_BRAKE}


class GpuState(Frozen):
    """One GPU; None where the driver gives no value (MHz, W, percent)."""

    name: str
    capability: str
    driver: str
    state: str
    utilization: float | None
    power: float | None
    clock: float | None
    clock_limit: float | None
    slowdown: int


class GpuProcess(Frozen):
    """A process that holds GPU memory (bytes, None where the driver does not say)."""

    pid: int
    name: str
    memory: int | None
    container: str = ""


def parse_gpus(rows: str | None, details: str | None = None) -> tuple[GpuState, ...] | None:
    """Read ``nvidia-smi --query-gpu``, or else ``-q``; None where neither answered."""
    if rows is None:
        return None if details is None else tuple(map(_detailed, _blocks(details)))
    return tuple(
        GpuState(name=name, capability=capability, driver=driver, state=state,
                 utilization=number(load), power=number(power), clock=number(clock),
                 clock_limit=number(limit), slowdown=_bits(reasons))
        for name, capability, driver, state, load, power, clock, limit, reasons
        in _cells(rows, len(GPU_FIELDS)))


def _cells(text: str, columns: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]


def number(text: str) -> float | None:
    """Return a finite number, None for what is none."""
    try:
        value = math.nan if text in NOT_GIVEN else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _bits(text: str) -> int:
    mask = Slowdown.HARDWARE | Slowdown.SOFTWARE_THERMAL | Slowdown.HARDWARE_THERMAL \
        | Slowdown.POWER_BRAKE
    try:
        return int(text, 16) & int(mask)
    except ValueError:
        return 0


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the driver's version and the lines of each GPU of ``-q``."""
    head, *gpus = re.split(r"^GPU [0-9A-Fa-f:.]+$", text, flags=re.MULTILINE)
    version = re.search(r"^(?:KMD|Driver) Version\s*: (\S+)", head, flags=re.MULTILINE)
    for block in gpus:
        yield version[1] if version else "", block


def _detailed(gpu: tuple[str, str]) -> GpuState:
    driver, block = gpu
    values = dict(_values(block))
    name = values.get("Product Name", "")
    return GpuState(
        name=name, capability=GB10 if name.endswith(GB10_NAME) else "", driver=driver,
        state=values.get("Performance State", ""), utilization=_figure(values, "Utilization/GPU"),
        power=_figure(values, "GPU Power Readings/Average Power Draw",
                      "GPU Power Readings/Power Draw", "Power Readings/Power Draw"),
        clock=_figure(values, "Clocks/SM"), clock_limit=_figure(values, "Max Clocks/SM"),
        slowdown=_active(values))


def _values(block: str) -> Iterator[tuple[str, str]]:
    """Yield ``section/key`` and value of each line; the indentation says the section."""
    section = ""
    for line in block.splitlines():
        key, colon, value = line.partition(" : ")
        name = key.strip()
        if not colon and name:
            section = name if line.startswith("    ") and line[4:5] != " " else section
        elif colon:
            yield (f"{section}/{name}" if line.startswith("        ") else name), value.strip()


def _figure(values: Mapping[str, str], *keys: str) -> float | None:
    """Return the first of the values that is a figure: ``690 MHz``, ``96 %``, ``12.72 W``."""
    figures = (number(values[key].partition(" ")[0]) for key in keys if key in values)
    return next((figure for figure in figures if figure is not None), None)


def _active(values: Mapping[str, str]) -> int:
    sections = ("Clocks Event Reasons", "Clocks Throttle Reasons")
    return sum(bit for name, bit in REASONS.items()
               if "Active" in (values.get(f"{section}/{name}") for section in sections))


def parse_processes(text: str | None, cgroups: Mapping[int, str] | None = None,
                    containers: str | None = None) -> tuple[GpuProcess, ...] | None:
    """Read ``nvidia-smi --query-compute-apps`` (memory in MiB), and whose container each is in."""
    if text is None:
        return None
    names = dict(line.split(maxsplit=1) for line in (containers or "").splitlines()
                 if len(line.split(maxsplit=1)) == 2)
    found = []
    for pid, name, memory in _cells(text, 3):
        amount = number(memory)
        if pid.isdecimal():
            inside = CONTAINER.search((cgroups or {}).get(int(pid), ""))
            found.append(GpuProcess(
                pid=int(pid), name=name, memory=None if amount is None else int(amount) * MIB,
                container=names.get(inside[1], inside[1][:12]) if inside else ""))
    return tuple(found)


def parse_cuda(*texts: str | None) -> str | None:
    """Return the CUDA version that the driver supports: ``CUDA UMD Version`` since driver 610."""
    found = (re.search(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)", text or "") for text in texts)
    return next((match[1] for match in found if match), None)
