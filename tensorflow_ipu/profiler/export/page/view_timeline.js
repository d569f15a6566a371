// The timeline: what each IPU does over a launch, with the layers around it.

const SPAN_KINDS = ["compute", "exchange", "sync"];

/** @param {Model} model */
function timelineView(model) {
  const lanes = new Lanes({
    label: "timeline of a launch: arrow keys go from span to span, plus and minus zoom",
    format: (cycles) => count(cycles),
    hint: (span) => spanLines(model, span),
    open: (span) => openSpan(model, span),
  });
  const by = select("colors", ["work", "phase", "bound"], "colors", [
    "color: work",
    "color: phase",
    "color: bound by",
  ]);
  const zoom = (text, title, act) =>
    make("button.button.icon", { type: "button", title, "aria-label": title, click: act }, text);
  const tools = [
    by,
    zoom("+", "zoom in", () => lanes.zoom.by(0.6)),
    zoom("−", "zoom out", () => lanes.zoom.by(1 / 0.6)),
    zoom("↔", "show the whole launch", () => lanes.zoom.show(0, lanes.zoom.size)),
  ];
  const legend = make("ul.legend");
  let shown = null;
  const show = () => {
    const colors = state.colors || "work";
    if (shown === colors) return;
    shown = colors;
    lanes.fill(timelineGroups(model, model.timeline, colors), model.timeline.cycles);
    fill(legend, timelineLegend(model, colors));
  };
  return {
    name: "timeline",
    title: "Timeline",
    full: true,
    tools,
    show,
    note: timelineNote(model),
    element: make("div.column", {}, lanes.element, legend, lanes.said, ipuShares(model)),
  };
}

/** What each IPU does, as bars. */
function ipuShares(model) {
  const bars = model.timeline.ipus.slice(0, 32).map(({ ipu, spans }) => {
    const sums = {};
    const add = (kind, cycles) => (sums[kind] = (sums[kind] || 0) + cycles);
    spans.start.forEach((_, i) => {
      const steps = SPAN_KINDS.map((kind) => spans[kind][i] || 0);
      const rest = spans.length[i] - steps.reduce((a, b) => a + b, 0);
      SPAN_KINDS.forEach((kind, at) => add(kind, steps[at]));
      const kind = model.text(spans.kind[i]);
      if (rest > 1e-6 * spans.length[i]) add(kind === "op" || !kind ? "compute" : kind, rest);
    });
    const busy = Object.values(sums).reduce((a, b) => a + b, 0) - (sums.idle || 0);
    const parts = kindParts({ ...sums, idle: Math.max(0, model.timeline.cycles - busy) });
    return make("div", {}, make("h3", {}, `IPU ${ipu}`), stackedBar(parts, whole));
  });
  return make("section.panel.shares", {}, make("h3", {}, "Cycles of each IPU"), ...bars);
}

/** What to know of the timeline, in words. */
function timelineNote({ timeline }) {
  const merged = timeline.merged
    ? ` ${whole(timeline.merged)} short spans are drawn as one with those beside them.`
    : "";
  const shown = timeline.shown < 0.999 ? ` The first ${percent(timeline.shown, 1)} is shown.` : "";
  return `${whole(timeline.cycles)} cycles. Wheel or + and − zoom, drag moves.${merged}${shown}`;
}

/** Lanes of each IPU: layers from the outermost in, then ops. */
function timelineGroups(model, timeline, colors) {
  return timeline.ipus.map(({ ipu, spans, layers }) => {
    const deepest = layers.depth.reduce((a, b) => Math.max(a, b), 0);
    const lanes = range(deepest).map(() => []);
    layers.depth.forEach((depth, i) => lanes[depth - 1].push(layerSpan(model, layers, i)));
    const work = spans.start.map((_, i) => workSpan(model, spans, i, colors));
    const busy = work.filter((span) => span.kind !== "idle");
    const stages = stageSpans(busy);
    return { name: `IPU ${ipu}`, lanes: [...lanes, ...(stages.length ? [stages] : []), busy] };
  });
}

/** What each stage does of which mini-batch, around the spans of a pipeline. */
function stageSpans(work) {
  const found = [];
  for (const span of work) {
    if (span.stage === null || span.stage === undefined || !span.phase) continue;
    const last = found[found.length - 1];
    const end = span.start + span.length;
    const key = `${span.stage}.${span.phase}.${span.mini_batch}`;
    if (last && last.key === key) last.length = end - last.start;
    else found.push({ ...span, key, parts: null, kind: "stage", color: colorName(span.phase) });
  }
  return found;
}

/** The name of a span of a pipeline: stage, phase and mini-batch. */
function stageName(model, span) {
  const names = (model.program && model.program.stage_names) || [];
  const stage = names[span.stage] || `stage ${span.stage}`;
  const of = hasMiniBatch(span) ? `, mini-batch ${span.mini_batch}` : "";
  return `${stage} ${span.phase}${of}`;
}

/** Whether a span is of a mini-batch. */
function hasMiniBatch({ mini_batch: number }) {
  return number !== null && number !== undefined;
}

/** A layer as a span. */
function layerSpan(model, layers, i) {
  const layer = layers.layer[i];
  return {
    start: layers.start[i],
    length: layers.length[i],
    pale: true,
    kind: "layer",
    layer,
    name: model.layers.name[layer],
    color: `--c${layer % (SERIES - 1)}`,
  };
}

/** An op, a transfer or a stage as a span. */
function workSpan(model, spans, i, colors) {
  const kind = model.text(spans.kind[i]);
  const row = spans.row[i];
  const span = {
    start: spans.start[i],
    length: spans.length[i],
    kind,
    row,
    layer: spans.layer[i],
    name: model.text(spans.name[i]),
    phase: model.text(spans.phase[i]),
    stage: spans.stage[i],
    mini_batch: spans.mini_batch[i],
    color: "--c0",
  };
  if (span.stage !== null && span.stage !== undefined && hasMiniBatch(span)) {
    span.phase = span.phase || "forward";
  }
  if (span.stage !== null && span.stage !== undefined && span.phase) {
    span.name = stageName(model, span);
    span.short = `${span.phase[0].toUpperCase()}${hasMiniBatch(span) ? span.mini_batch : ""}`;
  }
  const computes = kind === "op" || SPAN_KINDS.includes(kind);
  if (colors === "phase" && computes) span.color = colorName(span.phase || "forward");
  else if (colors === "bound" && row !== null) {
    span.color = colorName(model.text(model.operations.bound[row]), 8);
  } else if (SPAN_KINDS.some((each) => spans[each][i])) {
    span.parts = ["sync", "exchange", "compute"].map((each) => [spans[each][i], colorName(each)]);
    span.color = span.parts.reduce((a, b) => (b[0] > a[0] ? b : a))[1];
  } else span.color = colorName(kind === "op" ? "compute" : kind || "idle", 8);
  return span;
}

/** What is said of a span. */
function spanLines(model, span) {
  const times =
    `${whole(span.length)} cycles from ${whole(span.start)}, ` +
    duration(span.length / model.target.clock);
  const lines = [make("b", {}, span.name || "merged operations"), times];
  if (span.layer !== null && span.layer !== undefined)
    lines.push(make("div.soft", {}, model.layerName(span.layer)));
  if (span.row !== null && span.row !== undefined && model.operations) {
    lines.push(make("div.soft", {}, `bound by ${model.text(model.operations.bound[span.row])}`));
  }
  if (span.kind && span.kind !== "stage" && span.short) {
    lines.push(make("div.soft", {}, span.kind));
  }
  return lines;
}

/** Chooses the operation or the layer of a span. */
function openSpan(model, span) {
  if (span.row !== null && span.row !== undefined) chooseRow(model, span.row);
  else if (span.layer) choose("layer", span.layer);
}

/** Colors with their names. */
function timelineLegend(model, colors) {
  const names =
    colors === "phase"
      ? ["forward", "backward", "recompute", "update"]
      : colors === "bound"
        ? distinct(model, "bound")
        : ["compute", "exchange", "sync", "host", "streaming", "link", "collective"];
  const shown = names.map((name) => make("li", {}, swatch(name, 8), name));
  const phases = model && model.timeline && model.timeline.ipus.some(hasPhases);
  if (!phases || colors === "phase") return shown;
  const of = ["forward", "backward", "recompute", "update"];
  return [
    ...shown,
    make("li", {}, "Above, by stage:"),
    ...of.map((name) => make("li", {}, swatch(name, 8), `${name[0].toUpperCase()} ${name}`)),
  ];
}

/** Whether spans of an IPU are of a pipeline's stages. */
function hasPhases({ spans }) {
  return spans.stage.some((stage) => stage !== null);
}

/** @param {Model} model */
function optionsView(model) {
  const options = JSON.stringify(model.program.options, null, 2);
  const { api, fingerprint, created, batch } = model.program;
  const facts = factList([
    ["program", model.program.name],
    ["created", created],
    ["API", api || "TensorFlow"],
    ["batch", batch === null || batch === undefined ? null : whole(batch)],
    ["fingerprint", fingerprint],
  ]);
  return {
    name: "options",
    title: "Options",
    element: make(
      "div",
      {},
      facts,
      make("h3", {}, "Compiled with"),
      make("pre.code", {}, options),
      make("h3", {}, "Target"),
      make("pre.code", {}, JSON.stringify(model.target, null, 2)),
    ),
  };
}
