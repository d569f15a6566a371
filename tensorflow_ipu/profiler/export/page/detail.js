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

/** What the panel shows of a layer. */
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

/** Ops of a layer that take no cycles. */
function freeOps(model, layer) {
  return (model.opsOfLayer.get(layer) || []).filter((op) => !model.rowsOf(op).length);
}

/** Numbers of a layer. */
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
