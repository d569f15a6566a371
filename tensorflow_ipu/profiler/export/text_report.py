"""A report as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorflow_ipu.planner.details import groups_at_peak
from tensorflow_ipu.planner.plan import IpuMemory
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.profiler import breakdown
from tensorflow_ipu.profiler.insights import host_cycles, remedy_text
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.profiler.views.operations import BOUNDS
from tensorflow_ipu.util.text import aligned, fitted, human_bytes, human_count

# --- Tables ---

#: Rows of tables at most.
TOP = 10


def cycles_text(cycles: float) -> str:
    """Returns cycles as a whole number with separators."""
    return f"{round(cycles):,}"


def percent(part: float, whole: float) -> str:
    """Returns a part of a whole as a percentage."""
    return f"{100 * part / whole if whole else 0.0:.1f} %"


def seconds_text(seconds: float) -> str:
    """Returns a time in a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale or unit == "us":
            return f"{seconds / scale:.3f} {unit}"
    raise AssertionError


def pairs_lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Returns lines of names and values.

    Args:
        pairs: each a name and a value.
    """
    return [line.rstrip() for line in aligned(list(pairs), right=())]


def table(
    rows: Sequence[tuple[str, ...]],
    right: tuple[int, ...],
    spare: Sequence[str] = (),
    wrap: bool = False,
) -> list[str]:
    """Returns a table under its heading, nothing without rows.

    Args:
        rows: the heading, then the rows.
        right: columns that are aligned to the right.
        spare: headings of columns to leave out first where there is too little room.
        wrap: break texts of the last column into lines instead of cutting them.
    """
    return aligned(rows, right, spare, wrap) if len(rows) > 1 else []


def largest(report: ReportData) -> list[str]:
    """Returns the table of the largest tensors at the peak of the fullest IPU.

    Args:
        report: the report.
    """
    memory = report.plan.fullest
    live = breakdown.tensors_at_peak(memory)[:TOP]
    groups = groups_at_peak(report.workload, memory, live)
    rows = [("tensor", "category", "bytes", "layer", "source")]
    rows += [
        (item.name, item.category, f"{item.num_bytes:,}", layer, item.source)
        for item, layer in zip(live, groups)
    ]
    return table(rows, right=(2,), spare=("layer",))


def top_operations(report: ReportData) -> list[str]:
    """Returns tables of bounds, of the dearest op types, and of the dearest operations.

    Args:
        report: the report.
    """
    tables = [each for each in (_bounds(report), _types(report), _operations(report)) if each]
    lines = [line for number, each in enumerate(tables) for line in ([""] if number else []) + each]
    return [*sum_note(report), *lines] if lines else []


def sum_note(report: ReportData) -> list[str]:
    """Returns the line that distinguishes sums over IPUs from a launch; none for one IPU.

    Args:
        report: the report.
    """
    ipus = report.workload.ipus
    if ipus == 1:
        return []
    cycles = cycles_text(sum(row.cycles for row in report.operations()))
    launch = cycles_text(report.plan.timeline.cycles)
    return [
        f"Cycles are sums over the {ipus} IPUs of a replica: {cycles} in all, "
        f"beside {launch} of a launch"
    ]


def _bounds(report: ReportData) -> list[str]:
    """Returns the table of cycles by bound."""
    sums = dict.fromkeys(BOUNDS, 0.0)
    for row in report.operations():
        sums[row.bound] += row.cycles
    total = sum(sums.values())
    rows = [("bound by", "cycles", "share", "")]
    rows += [
        (bound, cycles_text(cycles), percent(cycles, total), BOUNDS[bound])
        for bound, cycles in sorted(sums.items(), key=lambda item: -item[1])
        if cycles
    ]
    return table(rows, right=(1, 2), wrap=True)


def _types(report: ReportData) -> list[str]:
    """Returns the table of op types."""
    total = sum(row.cycles for row in report.operations())
    rows = [("type", "ops", "runs", "cycles", "share")]
    rows += [
        (
            row.type,
            str(row.ops),
            f"{row.runs:,}",
            cycles_text(row.cycles),
            percent(row.cycles, total),
        )
        for row in breakdown.type_rows(report.ops())[:TOP]
    ]
    return table(rows, right=(1, 2, 3, 4))


def _operations(report: ReportData) -> list[str]:
    """Returns the table of ops and transfers, with bound, roofline share and partition."""
    names = ("cycles", "share", "bound by", "of roof", "type", "partition", "IPU", "runs", "label")
    rows = [(*names, "operation", "layer", "source")]
    rows += [
        (
            cycles_text(row.cycles),
            percent(row.share, 1),
            row.bound,
            "-" if row.roofline is None else percent(row.roofline, 1),
            f"{row.type} (map of {len(row.fused) + 1})" if row.fused else row.type,
            row.partition or "-",
            str(row.ipu),
            f"{row.runs:,}",
            row.label,
            row.name,
            row.layer,
            row.source,
        )
        for row in report.operations()[:TOP]
    ]
    spare = ("partition", "label", "runs", "of roof", "IPU", "type", "layer")
    return table(rows, right=(0, 1, 3, 6, 7), spare=spare)


def top_layers(report: ReportData) -> list[str]:
    """Returns the layers that take most cycles.

    Args:
        report: the report.
    """
    layers = sorted(report.layers(), key=lambda row: -row.cycles)[:TOP]
    names = ("layer", "forward", "backward", "update", "variables", "activations", "flops")
    rows = [(*names, "label")]
    rows += [
        (
            row.layer,
            cycles_text(row.forward_cycles),
            cycles_text(row.backward_cycles),
            cycles_text(row.update_cycles),
            human_bytes(row.variable_bytes),
            human_bytes(row.activation_bytes),
            human_count(row.flops),
            row.label,
        )
        for row in layers
    ]
    return (
        [*sum_note(report), *table(rows, (1, 2, 3, 4, 5, 6), ("label", "flops"))] if layers else []
    )


# --- The whole text ---

_REMEDIES = "Remedies"
_KINDS = ("compute", "exchange", "sync", "link", "collective", "host", "streaming", "idle")


def text(report: ReportData) -> str:
    """Returns a report as text.

    Args:
        report: the report.

    Returns:
        Sections with a heading each. Every number has its unit and how far it can be trusted:
        exact, modelled or assumed.
    """
    sections = (
        ("Target", _target(report)),
        ("Graph", _graph(report)),
        ("Memory usage", _memory(report)),
        ("Execution", _execution(report)),
        ("Pipeline", _pipeline(report)),
        ("Host I/O", _host(report)),
        ("Largest tensors at the peak", largest(report)),
        ("Top operations", top_operations(report)),
        ("Top layers", top_layers(report)),
        (_REMEDIES, [remedy_text(remedy) for remedy in report.insights["remedies"]]),
    )
    parts = [f"Program {report.name}"]
    for title, lines in sections:
        if lines:
            section = "\n".join([f"{title}:", *(f"  {line}".rstrip() for line in lines)])
            # Remedies have lines to copy.
            parts.append(section if title == _REMEDIES else fitted(section))
    return "\n\n".join(parts) + "\n"


def _target(report: ReportData) -> list[str]:
    """Returns the lines about the chip, and the numbers of IPUs and replicas."""
    target, chip = report.target, report.settings.chip
    io_tiles = report.settings.io_tiles
    division = report.settings.division and f", {report.settings.division}"
    tiles = f"{chip.tiles:,}" + (f", {io_tiles} of them for I/O" if io_tiles else "")
    return pairs_lines(
        (
            ("Chip", chip.title),
            ("Replicas", f"{target['replicas']}{division}"),
            ("IPUs per replica", str(target["ipus_per_replica"])),
            ("Number of IPUs", str(target["ipus"])),
            ("Tiles per IPU", tiles),
            ("Total tiles", f"{chip.tiles * target['ipus']:,}"),
            ("Memory per tile", human_bytes(chip.memory_per_tile)),
            ("Total memory", human_bytes(chip.memory * target["ipus"])),
            ("Clock speed", f"{chip.clock / 1e6:,.1f} MHz"),
        )
    )


def _graph(report: ReportData) -> list[str]:
    """Returns the lines about the program's ops, edges, variables and work."""
    workload, times = report.workload, report.plan.timeline.ops
    codelets = {name for time in times for name in time.cost.codelets}
    edges = sum(len(op.inputs) for op in workload.ops)
    variables = sum(variable.num_bytes for variable in workload.variables)
    flops = sum((op.flops or 0) * op.runs for op in workload.ops)
    return pairs_lines(
        (
            ("Ops", f"{len(workload.ops):,} (exact)"),
            ("Ops with a cost", f"{len(times):,} (exact)"),
            ("Edges between ops", f"{edges:,} (exact)"),
            ("Tensors in memory", f"{len(workload.buffers):,} (exact)"),
            ("Variables", f"{len(workload.variables):,}, {human_bytes(variables)} (exact)"),
            ("Vertex types", f"{len(codelets):,} (modelled)"),
            ("Copies between IPUs", f"{len(workload.copies):,} (exact)"),
            ("Flops of a launch of a replica", f"{human_count(flops)} (modelled)"),
        )
    )


def _memory(report: ReportData) -> list[str]:
    """Returns the lines about each IPU's memory by category and over its tiles."""
    lines: list[str] = []
    for memory in report.plan.memory:
        lines += ["", *_ipu_memory(memory)] if lines else _ipu_memory(memory)
    worst = report.plan.fullest
    verdict = "fits" if report.plan.fits else "does NOT fit"
    return [
        f"The program {verdict}: the fullest tile is tile {worst.worst_tile} of IPU {worst.ipu} "
        f"with {human_bytes(worst.worst_bytes)} of {human_bytes(worst.capacity)} "
        f"({percent(worst.worst_bytes, worst.capacity)})",
        "",
        *lines,
    ]


def _ipu_memory(memory: IpuMemory) -> list[str]:
    """Returns the lines about the memory of one IPU."""
    tiles = memory.peak
    over = int((tiles > memory.capacity).sum())
    rows = [("category", "live", "total", "tile min", "tile mean", "tile max", "label")]
    rows += [
        (
            category.name,
            "always" if category.always_live else "not always",
            f"{category.total:,}",
            f"{int(category.tiles.min()):,}",
            f"{category.tiles.mean():,.0f}",
            f"{int(category.tiles.max()):,}",
            category.label.value,
        )
        for category in memory.categories
    ]
    return [
        f"IPU {memory.ipu}: {memory.total:,} B in all, {memory.always_live:,} B always live, "
        f"{memory.total - memory.always_live:,} B not always live",
        f"per tile: min {int(tiles.min()):,} B, mean {tiles.mean():,.0f} B, max "
        f"{int(tiles.max()):,} B (tile {memory.worst_tile}), {over} of {len(tiles):,} tiles out of "
        "memory",
        *table(rows, right=(2, 3, 4, 5), spare=("live", "tile mean")),
    ]


def _shared(report: ReportData) -> list[str]:
    """Returns the line about the work that replicas shared on the host."""
    executions = report.executions
    if not executions.ops:
        return []
    return [
        f"Uniform: {executions.uniform_ops:,} of {executions.ops:,} ops, which the host ran once "
        f"for all replicas, and {executions.uniform_bytes:,} of {executions.variable_bytes:,} B "
        f"of variables, which it held once; {executions.copied_bytes:,} B of copies of the others"
    ]


def _execution(report: ReportData) -> list[str]:
    """Returns the lines about the cycles of a launch by kind."""
    timeline, executions = report.plan.timeline, report.executions
    kinds = [k for k in _KINDS if k in timeline.by_kind]
    kinds += [k for k in timeline.by_kind if k not in kinds]
    rows = [("busiest IPU", "cycles", "share")]
    rows += [
        (kind, cycles_text(cycles), percent(cycles, timeline.cycles))
        for kind in kinds
        for cycles in (timeline.by_kind[kind],)
    ]
    labels = ", ".join(
        f"{percent(cycles, timeline.cycles)} {label.value}"
        for label, cycles in timeline.by_label.items()
        if cycles
    )
    measured = throughput.interval(report.plan)
    host = "never launched"
    if executions.launches:
        each = executions.host_seconds / executions.launches
        plural = "es" if executions.launches > 1 else ""
        host = (
            f"{executions.launches} launch{plural} took {executions.host_seconds:.3f} s of the "
            f"host's wall time ({seconds_text(each)} each), which says nothing of the chip"
        )
    return [
        f"A launch takes {cycles_text(timeline.cycles)} cycles, {seconds_text(timeline.seconds)} "
        f"({timeline.label.value})",
        *_rates(report),
        *([f"How far the cycles can be trusted: {labels}"] if labels else []),
        f"Eight of ten measurements took {measured.low:.2f} to {measured.high:.2f} of the "
        f"predicted time ({measured.kind}, {measured.configurations} configurations)",
        *table(rows, right=(1, 2)),
        f"So far: {host}",
        *_shared(report),
    ]


def _rates(report: ReportData) -> list[str]:
    """Returns the lines about the rates of a launch."""
    found = report.insights
    if not found["flops_per_second"]:
        return []
    items = ""
    if found["items_per_second"] is not None:
        low, high = found["range_per_second"]
        items = (
            f"{found['items_per_second']:,.0f} elements of data a second on all replicas "
            f"({low:,.0f} to {high:,.0f}), "
        )
    return [
        f"Rates: {items}{human_count(round(found['flops_per_second']))}flop/s of a replica, "
        f"{100 * found['utilisation']:.1f} % of its matrix units' peak "
        f"({report.plan.timeline.label.value})"
    ]


def _pipeline(report: ReportData) -> list[str]:
    """Returns the lines about the pipeline's stages and the busy share of their IPUs."""
    description, schedule = report.workload.pipeline, report.plan.timeline.schedule
    if description is None or schedule is None:
        return []
    recompute, bubble = description.resolved_recomputation, report.plan.timeline.bubble_share or 0.0
    lines = [
        f"{description.stages} stages, {description.mini_batches} mini-batches, "
        f"{description.schedule.name} schedule, "
        + (f"{recompute.name}" if recompute else "no recomputation"),
        f"Share of the IPUs' time that is idle (bubble): {100 * bubble:.1f} % (modelled)",
    ]
    names = report.workload.stage_names
    for stage, ipus in enumerate(description.ipus_of_stages):
        name = f" {names[stage]}" if stage < len(names) else ""
        lines.append(f"stage {stage}{name} on IPU {', '.join(map(str, ipus))}")
    rows = [("IPU", "busy cycles", "share")]
    rows += [
        (str(ipu), cycles_text(busy), percent(busy, schedule.total))
        for ipu, busy in zip(schedule.ipus, schedule.busy)
    ]
    return lines + table(rows, right=(0, 1, 2))


def _host(report: ReportData) -> list[str]:
    """Returns the lines about transfers in and out."""
    transfers = report.plan.timeline.transfers
    rows = [("transfer", "kind", "IPU", "bytes", "runs", "cycles each", "overlapped", "label")]
    rows += [
        (
            transfer.name,
            transfer.kind,
            str(transfer.ipu),
            f"{transfer.num_bytes:,}",
            f"{transfer.runs:,}",
            cycles_text(transfer.cycles),
            "yes" if transfer.overlapped else "no",
            transfer.label.value,
        )
        for transfer in sorted(transfers, key=lambda t: -t.cycles * t.runs)[:TOP]
    ]
    more = len(transfers) - TOP
    total = host_cycles(report.plan)
    bound = "longer" if report.insights["io_bound"] else "not longer"
    return [
        *table(rows, right=(2, 3, 4, 5), spare=("label", "overlapped")),
        *([f"... and {more} more"] if more > 0 else []),
        f"Traffic with the host: {cycles_text(total)} cycles of the busiest IPU (modelled), "
        f"{bound} than its other work",
    ]
