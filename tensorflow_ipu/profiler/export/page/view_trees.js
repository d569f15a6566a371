// Layers, and the program as it is executed.

/** @param {Model} model */
function layersView(model) {
  const { layers } = model;
  const table = new Table({
    label: "layers",
    columns: layerColumns(model),
    sort: null,
    id: String,
    children: (layer) => model.childrenOfLayer.get(layer) || [],
    open: (layer) => choose("layer", layer),
  });
  table.opened.add("0");
  table.fill([0]);
  const note = `${whole(model.layerCount - 1)} layers; those of an op are its name scopes. ${sumText(model)}`;
  const chosen = (thing) => {
    const name = thing && thing.kind === "layer" ? String(thing.id) : null;
    if (name === table.chosen) return;
    if (name !== null && layers.parent[thing.id] !== null)
      openAbove(table, layers.parent, thing.id);
    table.choose(name, name !== null);
  };
  return {
    name: "layers",
    title: "Layers",
    count: model.layerCount - 1,
    full: true,
    note,
    element: table.element,
    chosen,
  };
}

/** Opens what is around a row of a tree. */
function openAbove(table, parents, row) {
  let at = parents[row];
  while (at !== null && at !== undefined) {
    table.opened.add(String(at));
    at = parents[at];
  }
  table.arrange();
}

/** Columns of the layers. */
function layerColumns(model) {
  const { layers } = model;
  const number = (key, title, show, note, width = "100px") => ({
    key,
    title,
    note,
    width,
    number: true,
    value: (row) => layers[key][row],
    show: (row) => show(layers[key][row]),
  });
  return [
    {
      key: "name",
      title: "Layer",
      width: "minmax(240px, 2fr)",
      value: (row) => layers.name[row] || model.program.name,
    },
    {
      ...number("cycles", "Cycles", whole, "with the layers in it", "118px"),
      part: (row) => layers.cycles[row] / (layers.cycles[0] || 1),
    },
    number("share", "Share", (value) => percent(value, 1), "of the program", "72px"),
    {
      key: "time",
      title: "Time",
      width: "84px",
      note: "compute, exchange, sync, transfers",
      value: (row) => layers.compute[row],
      show: (row) => miniBar(timeParts(layers, row)),
    },
    number("forward", "Forward", whole, "cycles"),
    number("backward", "Backward", whole, "cycles"),
    number("update", "Update", whole, "cycles", "92px"),
    number("variable_bytes", "Variables", bytes, "bytes of a replica", "92px"),
    number("activation_bytes", "Activations", bytes, "results of forward ops", "92px"),
    number("temporary", "Temporary", bytes, "most on a tile of any op in it", "92px"),
    number("flops", "FLOP", count, "of a launch", "80px"),
    number("ops", "Ops", whole, "with those of the layers in it", "66px"),
    { key: "label", title: "Label", width: "84px", value: (row) => model.text(layers.label[row]) },
  ];
}

const TREE_SIGNS = {
  program: "▣",
  loop: "⟳",
  call: "ƒ",
  conditional: "?",
  branch: "↳",
  stage: "▤",
};

/** @param {Model} model */
function programView(model) {
  const tree = model.program_tree;
  const table = new Table({
    label: "program",
    columns: programColumns(model),
    sort: null,
    id: String,
    children: (node) => nodesBelow(model, node),
    open: (node) => openNode(model, node),
  });
  const opened = tree.kind.map((kind, node) => [model.text(kind), node]);
  opened
    .filter(([kind, node]) => !["op", "stage"].includes(kind) && tree.depth[node] < 3)
    .forEach(([, node]) => table.opened.add(String(node)));
  if (tree.kind.length) table.fill([0]);
  const note =
    "What is executed, in order; of a pipeline by stage. An op opens to its sync, exchange and " +
    `compute. ${sumText(model)}`;
  const free = select("steps", ["", "all"], "steps", ["what takes cycles", "all ops"]);
  let shown = null;
  const show = () => {
    if (shown === (state.steps || "")) return;
    shown = state.steps || "";
    table.arrange();
  };
  const chosen = (thing) => {
    const node = thing && thing.kind === "op" ? tree.op.indexOf(thing.id) : -1;
    const name = node < 0 ? null : String(node);
    if (name === table.chosen) return;
    if (name !== null) openAbove(table, model.treeParents, node);
    table.choose(name, name !== null);
  };
  return {
    name: "program",
    title: "Program",
    full: true,
    note,
    tools: [free],
    show,
    element: table.element,
    chosen,
  };
}

/** Nodes below one; of an op the steps that it takes, as `node/kind`. */
function nodesBelow(model, node) {
  if (typeof node === "string") return [];
  const inner = model.childrenOfNode.get(node);
  const { cycles } = model.program_tree;
  if (inner) return state.steps === "all" ? inner : inner.filter((each) => cycles[each] > 0);
  const row = model.program_tree.row[node];
  if (row === null || row === undefined) return [];
  return ["sync", "exchange", "compute", "transfer"]
    .filter((kind) => model.operations[kind][row] > 0)
    .map((kind) => `${node}/${kind}`);
}

/** Node and kind of a step of an op; null of other nodes. */
function nodeStep(node) {
  if (typeof node !== "string") return null;
  const [at, kind] = node.split("/");
  return { node: Number(at), kind };
}

/** Chooses what a node is. */
function openNode(model, node) {
  const tree = model.program_tree;
  const step = nodeStep(node);
  const at = step ? step.node : node;
  if (tree.op[at] !== null) choose("op", tree.op[at]);
  else if (tree.row[at] !== null) choose("transfer", tree.row[at]);
}

/** Columns of the program. */
function programColumns(model) {
  const tree = model.program_tree;
  const own = (node, key) => (nodeStep(node) ? null : tree[key][node]);
  const cycles = (node) => {
    const step = nodeStep(node);
    return step ? model.operations[step.kind][tree.row[step.node]] : tree.cycles[node];
  };
  const name = (node) => (nodeStep(node) ? nodeStep(node).kind : nodeName(model, node));
  return [
    {
      key: "name",
      title: "Step",
      width: "minmax(280px, 2fr)",
      value: name,
      show: (node) => nodeLabel(model, node, name(node)),
    },
    {
      key: "kind",
      title: "Kind",
      width: "130px",
      value: (node) => (nodeStep(node) ? "step" : nodeKind(model, node)),
    },
    {
      key: "cycles",
      title: "Cycles",
      number: true,
      width: "118px",
      value: cycles,
      show: (node) => whole(cycles(node)),
      part: (node) => cycles(node) / (tree.cycles[0] || 1),
    },
    {
      key: "share",
      title: "Share",
      number: true,
      width: "80px",
      value: cycles,
      show: (node) => percent(cycles(node), tree.cycles[0]),
    },
    {
      key: "trips",
      title: "Iterations",
      number: true,
      width: "88px",
      value: (node) => own(node, "trips"),
      show: (node) => whole(own(node, "trips")),
    },
    {
      key: "runs",
      title: "Runs",
      number: true,
      width: "76px",
      value: (node) => own(node, "runs"),
      show: (node) => whole(own(node, "runs")),
    },
    {
      key: "ipu",
      title: "IPU",
      number: true,
      width: "56px",
      value: (node) => own(node, "ipu"),
      show: (node) => whole(own(node, "ipu")),
    },
    {
      key: "line",
      title: "Line",
      width: "minmax(150px, 1fr)",
      value: (node) =>
        nodeStep(node) || tree.op[node] === null ? "" : model.text(model.ops.source[tree.op[node]]),
    },
    {
      key: "label",
      title: "Label",
      width: "84px",
      value: (node) => (nodeStep(node) ? "" : model.text(tree.label[node])),
    },
  ];
}

/** The name of a node. */
function nodeName(model, node) {
  return model.program_tree.name[node] || model.text(model.program_tree.kind[node]);
}

/** The kind of a node; of an op its type. */
function nodeKind(model, node) {
  const { kind, op } = model.program_tree;
  const text = model.text(kind[node]);
  return text === "op" && op[node] !== null ? model.text(model.ops.type[op[node]]) : text;
}

/** A node with its sign. */
function nodeLabel(model, node, text) {
  const step = nodeStep(node);
  if (step) return make("span.soft", {}, swatch(step.kind), ` ${text}`);
  const sign = TREE_SIGNS[model.text(model.program_tree.kind[node])];
  return make(
    "span",
    {},
    sign ? make("span.soft", { "aria-hidden": "true" }, `${sign} `) : "",
    sign ? text : pathText(text),
  );
}
