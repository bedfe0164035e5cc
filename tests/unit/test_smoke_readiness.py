"""A boot told by its log: healthy, slow, hung, dead."""

from __future__ import annotations

from builder.smoke.readiness import PHASES, Boot
from tests.unit.test_diagnose import HEALTHY


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_boot() -> tuple[Boot, Clock]:
    clock = Clock()
    return Boot(clock=clock), clock


def test_a_healthy_boot_goes_through_its_phases() -> None:
    boot, clock = a_boot()
    for line in HEALTHY:
        clock.now += 2
        boot.line(line)
    assert boot.ready
    assert not boot.dead
    assert boot.durations["weights"] == 2


def test_a_slow_compile_that_prints_is_no_hang() -> None:
    boot, clock = a_boot()
    boot.line("INFO Loading weights took 84 seconds")
    for _ in range(10):
        clock.now += 1000
        boot.line("INFO Compiling a graph for dynamic shape")
        assert not boot.hung()
    assert boot.name == "compile"


def test_five_silent_minutes_of_compiling_are_no_hang() -> None:
    boot, clock = a_boot()
    boot.line("INFO Loading weights took 84 seconds")
    clock.now = 306
    assert not boot.hung()


def test_silence_for_too_long_is_a_hang_and_names_its_phase() -> None:
    boot, clock = a_boot()
    boot.line("INFO Loading weights took 84 seconds")
    clock.now = 1801
    assert 'phase "compile"' in boot.hung()


def test_an_emulated_machine_may_be_silent_longer() -> None:
    clock = Clock()
    boot = Boot(clock=clock, scale=10)
    clock.now = 2999
    assert not boot.hung()
    clock.now = 3001
    assert boot.hung()


def test_a_dead_engine_is_seen_at_its_line() -> None:
    boot, _ = a_boot()
    boot.line("ERROR EngineCore failed to start.")
    assert boot.dead


def test_a_line_that_only_mentions_the_engine_is_no_death() -> None:
    boot, _ = a_boot()
    boot.line("INFO EngineCore started")
    assert not boot.dead


def test_an_old_marker_does_not_lead_back() -> None:
    boot, _ = a_boot()
    for line in HEALTHY:
        boot.line(line)
    boot.line("Starting to load model again")
    assert boot.ready


def test_every_phase_has_a_name_of_its_own() -> None:
    assert len({phase.name for phase in PHASES}) == len(PHASES)
