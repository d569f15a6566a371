// What is chosen: a layer, an op, a tensor or a tile, with ways from one to the others.

const LISTED = 40;

/**
 * The panel beside the views.
 * @param {Model} model
 */
function detailPanel(model) {
  const title = make("h2", { tabindex: -1 });
  const path = make("ol");
  const body = make("div");
  const back = make(
    "button.button.icon",
    { type: "button", title: "back (Alt+←)", "aria-label": "back", click: () => history.back() },
    "←",
  );
  const close = make(
    "button.button.icon",
    {
      type: "button",
      title: "close (Esc)",
      "aria-label": "close details",
      click: () => go({ chosen: "" }),
    },
    "✕",
  );
  const element = make(
    "aside.detail",
    { "aria-label": "details", hidden: true },
    make("nav", { "aria-label": "path" }, back, path, close),
    title,
    body,
  );
  const makers = {
    layer: layerDetail,
    op: opDetail,
    transfer: transferDetail,
    tensor: tensorDetail,
    tile: tileDetail,
  };
  const show = () => {
    const thing = chosenThing();
    const found = thing && makers[thing.kind] && makers[thing.kind](model, thing);
    element.hidden = !found;
    if (!found) return;
    fill(title, breakable(found.title));
    fill(
      path,
      found.path.map((each) => make("li", {}, each)),
    );
    fill(body, found.content.flat().filter(Boolean));
    element.scrollTop = 0;
  };
  return { element, show };
}

/** Links to the layers around something. */
function layerPath(model, layer) {
  const all = link(model.program.name, () => choose("layer", 0));
  return [
    all,
    ...model.trail(layer).map((each) => link(model.layers.name[each], () => choose("layer", each))),
  ];
}

/** A list of links with a number each, the first of many. */
function linkList(title, items) {
  if (!items.length) return [];
  const shown = items
    .slice(0, LISTED)
    .map(([text, value, open]) =>
      make(
        "li",
        {},
        make("span", { title: text }, open ? link(text, open) : pathText(text)),
        make("span", {}, value),
      ),
    );
  const more = items.length - LISTED;
  const rest = more > 0 ? make("p.soft", {}, `and ${whole(more)} more`) : null;
  return [make("h3", {}, `${title} (${whole(items.length)})`), make("ul.list", {}, ...shown), rest];
}

function layerDetail(model, { id }) {
  const { layers } = model;
  if (id >= model.layerCount) return null;
  const inner = [...(model.childrenOfLayer.get(id) || [])].sort(
    (a, b) => layers.cycles[b] - layers.cycles[a],
  );
  const rows = model.rowsOfLayer.get(id) || [];
  const path = layerPath(model, layers.parent[id] || 0);
  return {
    title: layers.name[id] || model.program.name,
    path: id ? path : [],
    content: [
      stackedBar(
        timeParts(layers, id).filter(([, size]) => size > 0),
        whole,
      ),
      layerFacts(model, id),
      id
        ? link("Show its operations in the table", () =>
            go({ view: "operations", q: layers.path[id], bound: "" }),
          )
        : null,
      linkList(
        "Layers in it",
        inner.map((each) => [
          layers.name[each],
          whole(layers.cycles[each]),
          () => choose("layer", each),
        ]),
      ),
      linkList(
        "Operations",
        rows.map((row) => [
          model.operations.name[row],
          whole(model.operations.cycles[row]),
          () => chooseRow(model, row),
        ]),
      ),
      linkList(
        "Ops without cycles",
        freeOps(model, id).map((op) => [
          model.ops.name[op],
          model.text(model.ops.type[op]),
          () => choose("op", op),
        ]),
      ),
    ],
  };
}

function freeOps(model, layer) {
  return (model.opsOfLayer.get(layer) || []).filter((op) => !model.rowsOfOp.has(op));
}

function layerFacts(model, id) {
  const { layers } = model;
  return factList([
    ["cycles", `${whole(layers.cycles[id])} (${percent(layers.share[id], 1)})`],
    ["forward", whole(layers.forward[id])],
    ["backward", whole(layers.backward[id])],
    ["update", whole(layers.update[id])],
    ["variables", bytes(layers.variable_bytes[id])],
    ["activations", bytes(layers.activation_bytes[id])],
    ["temporary", `${bytes(layers.temporary[id])} on a tile`],
    ["FLOP", count(layers.flops[id])],
    ["ops", whole(layers.ops[id])],
    ["label", model.text(layers.label[id])],
  ]);
}

function opDetail(model, { id }) {
  const { ops } = model;
  if (id >= model.opCount) return null;
  const rows = model.rowsOfOp.get(id) || [];
  return {
    title: ops.name[id],
    path: layerPath(model, ops.layer[id] || 0),
    content: [
      factList([
        ["type", model.text(ops.type[id])],
        ["line", codeText(model.text(ops.source[id]))],
        ["phase", model.text(ops.phase[id])],
        ["IPU", ops.ipu[id]],
        ["stage", ops.stage[id]],
        ["runs", whole(ops.runs[id])],
        ["iterations", ops.trip_count[id]],
        ["label", model.text(ops.label[id])],
      ]),
      rows.length
        ? rows.map((row) => costDetail(model, row))
        : make("p.soft", {}, "It takes no cycles of its own."),
      operandList(model, id, "inputs", "Inputs"),
      operandList(model, id, "outputs", "Outputs"),
    ],
  };
}

/** What an op or a transfer costs. */
function costDetail(model, row) {
  const table = model.operations;
  const range = model.intervals[model.text(table.type[row])];
  const cycles = table.cycles[row];
  return make(
    "div",
    {},
    make(
      "h3",
      {},
      `${whole(table.cycles[row])} cycles (${percent(table.share[row], 1)} of all operations)`,
    ),
    stackedBar(
      timeParts(table, row).filter(([, size]) => size > 0),
      whole,
    ),
    factList([
      ["bound by", table.bound[row] === null ? null : boundTag(model, table.bound[row])],
      ["", model.bounds[model.text(table.bound[row])] || null],
      [
        "interval",
        range && cycles
          ? `${whole(cycles * range[0])} to ${whole(cycles * range[1])}, 8 of 10 measurements`
          : null,
      ],
      ["of the roofline", percentOrNothing(table.roofline[row])],
      [
        "intensity",
        table.intensity[row] === null ? null : `${digitsOf(table.intensity[row])} FLOP a byte`,
      ],
      ["attainable", table.attainable[row] ? rate(table.attainable[row]) : null],
      [
        "rate",
        table.rate[row]
          ? `${rate(table.rate[row])}, ${percent(table.peak_share[row], 1)} of the peak`
          : null,
      ],
      ["FLOP", table.flops[row] === null ? null : count(table.flops[row])],
      ["split", model.text(table.partition[row])],
      ["tiles", whole(table.tiles[row])],
      ["runs", whole(table.runs[row])],
      ["temporary", `${bytes(table.temporary[row])} on the fullest tile`],
      ["vertex state", `${bytes(table.vertex_state[row])} a tile`],
      ["exchange code", `${bytes(table.exchange_code[row])} a tile`],
      ["bytes moved", table.num_bytes[row] ? whole(table.num_bytes[row]) : null],
      ["label", model.text(table.label[row])],
    ]),
  );
}

function percentOrNothing(value) {
  return value === null || value === undefined ? null : percent(value, 1);
}

function codeText(text) {
  return text ? make("span.code", {}, text) : null;
}

function operandList(model, op, side, title) {
  return linkList(
    title,
    model
      .operands(op, side)
      .map(({ tensor, type }) =>
        tensor === null
          ? [type, "no memory", null]
          : [
              `${model.tensors.name[tensor]}  ${type}`,
              bytes(model.tensors.bytes[tensor]),
              () => choose("tensor", tensor),
            ],
      ),
  );
}

function transferDetail(model, { id }) {
  const table = model.operations;
  if (id >= model.rowCount) return null;
  return {
    title: table.name[id],
    path: layerPath(model, table.layer[id] || 0),
    content: [
      factList([
        ["kind", model.text(table.type[id])],
        ["IPU", table.ipu[id]],
        ["phase", model.text(table.phase[id])],
        ["line", codeText(model.text(table.source[id]))],
      ]),
      costDetail(model, id),
    ],
  };
}

function tensorDetail(model, { id }) {
  const { tensors } = model;
  if (id >= model.tensorCount) return null;
  const maker = tensors.maker[id];
  return {
    title: tensors.name[id] || "tensor",
    path: layerPath(model, tensors.layer[id] || 0),
    content: [
      factList([
        ["type", `${model.text(tensors.dtype[id])}, ${shapeText(tensors.shape[id])}`],
        ["bytes", whole(tensors.bytes[id])],
        ["kind", model.text(tensors.kind[id])],
        ["role", model.text(tensors.role[id])],
        ["IPU", tensors.ipu[id]],
        ["line", codeText(model.text(tensors.source[id]))],
        ["kept in", tensors.offloaded[id] ? "streaming memory" : null],
        ["split", tensors.split[id] > 1 ? `over ${tensors.split[id]} replicas` : null],
        ["label", model.text(tensors.label[id])],
      ]),
      model.placesOf(id).map((place) => placeDetail(model, place)),
      maker === null
        ? []
        : linkList("Made by", [
            [model.ops.name[maker], model.text(model.ops.type[maker]), () => choose("op", maker)],
          ]),
      linkList(
        "Used by",
        tensors.users[id].map((op) => [
          model.ops.name[op],
          model.text(model.ops.type[op]),
          () => choose("op", op),
        ]),
      ),
    ],
  };
}

/** Where a tensor is on an IPU, and from when to when. */
function placeDetail(model, place) {
  const { ipu, category, birth, death, tiles } = place;
  const used = tiles.reduce((sum, size) => sum + (size > 0 ? 1 : 0), 0);
  const most = tiles.reduce((a, b) => Math.max(a, b), 0);
  const life =
    birth === null
      ? "always live"
      : link(`live in steps ${birth} to ${death}`, () =>
          go({ view: "liveness", ipu: String(ipu), step: String(birth) }),
        );
  return make(
    "div",
    {},
    make("h3", {}, `On IPU ${ipu}: ${category}`),
    make("p", {}, life),
    tileStrip(tiles, (tile) => choose("tile", `${ipu}.${tile}`)),
    make(
      "p.soft",
      {},
      `${whole(used)} tiles, at most `,
      link(`${bytes(most)} on tile ${tiles.indexOf(most)}`, () =>
        choose("tile", `${ipu}.${tiles.indexOf(most)}`),
      ),
    ),
  );
}

function tileDetail(model, { id: ipu, tile }) {
  const memory = model.memory[ipu];
  if (!memory || !(tile < memory.tiles)) return null;
  const peak = spreadAt(memory.peak, tile);
  const parts = memory.categories
    .map((each) => [each.name, spreadAt(each.tiles, tile)])
    .filter(([, size]) => size > 0);
  const step = shownStep(model, ipu);
  const here = model
    .liveAt(ipu, step)
    .map((each) => [each, each.on(tile)])
    .filter(([, size]) => size > 0);
  here.sort((a, b) => b[1] - a[1]);
  const move = (to, text, title) =>
    make(
      "button.button.icon",
      {
        type: "button",
        title,
        "aria-label": title,
        disabled: to < 0 || to >= memory.tiles,
        click: () => choose("tile", `${ipu}.${to}`),
      },
      text,
    );
  return {
    title: `Tile ${tile} of IPU ${ipu}`,
    path: [link("Memory", () => go({ view: "memory", ipu: String(ipu) }))],
    content: [
      make(
        "p",
        {},
        make(
          "span.pill." + (peak > memory.capacity ? "bad" : "good"),
          {},
          `${bytes(peak)} of ${bytes(memory.capacity)} at its peak`,
        ),
        " ",
        move(tile - 1, "‹", "tile before"),
        " ",
        move(tile + 1, "›", "next tile"),
      ),
      tile >= memory.compute_tiles ? make("p.soft", {}, "An I/O tile.") : null,
      stackedBar(
        parts.sort((a, b) => b[1] - a[1]),
        bytes,
      ),
      make(
        "p.soft",
        {},
        "Live at ",
        link(make("span", {}, `step ${step}, ${stepName(model, ipu, step)}`), () =>
          go({ view: "liveness", ipu: String(ipu), step: String(step) }),
        ),
      ),
      linkList(
        "On the tile then",
        here.map(([each, size]) => [
          `${each.name}`,
          bytes(size),
          each.tensor === null
            ? each.op === undefined
              ? null
              : () => choose("op", each.op)
            : () => choose("tensor", each.tensor),
        ]),
      ),
    ],
  };
}
