// The graph around an op: what it reads, who makes that, and who reads what it makes.

// The name of the language of drawings. It looks like an address, and nothing is fetched from it.
const SVG = ["http", "//www.w3.org/2000/svg"].join(":");

const GRAPH = { wide: 218, high: 44, gap: 12, across: 64, most: 7, depth: 2 };

/** @param {Model} model */
function graphView(model) {
  const holder = make("div.graph");
  const note = make("span.note");
  let shown = null;
  const show = () => {
    const op = graphCenter(model);
    if (op === shown) return;
    shown = op;
    if (op === null) return fill(holder, make("p.soft", {}, "The program has no ops."));
    fill(note, `Around ${model.ops.name[op]}: what it reads on the left, who reads it on the right.`);
    fill(holder, drawGraph(model, op));
    showCenter(holder);
  };
  return { name: "graph", title: "Graph", note, show, chosen: show, element: holder };
}

/** Scrolls to the op in the middle, as soon as the view has a width. */
function showCenter(holder) {
  requestAnimationFrame(() => {
    const center = holder.querySelector(".center");
    if (!center) return;
    holder.scrollLeft = center.offsetLeft - (holder.clientWidth - center.offsetWidth) / 2;
  });
}

/** The op in the middle: the chosen one, else that with most cycles. */
function graphCenter(model) {
  const thing = chosenThing();
  if (thing && thing.kind === "op" && thing.id < model.opCount) return thing.id;
  if (thing && thing.kind === "tensor" && thing.id < model.tensorCount) {
    const maker = model.tensors.maker[thing.id];
    return maker === null ? (model.tensors.users[thing.id][0] ?? null) : maker;
  }
  const row = model.operations.op.findIndex((op) => op !== null);
  return row < 0 ? (model.opCount ? 0 : null) : model.operations.op[row];
}

/** Ops that make what an op reads (`inputs`), or read what it makes (`outputs`), with the tensor. */
function graphNeighbors(model, op, side) {
  const found = new Map();
  for (const { tensor } of model.operands(op, side)) {
    if (tensor === null) continue;
    const { maker, users } = model.tensors;
    const others = side === "inputs" ? [maker[tensor]] : users[tensor];
    if (side === "inputs" && maker[tensor] === null) found.set(`t${tensor}`, { tensor });
    for (const other of others) {
      if (other === null || other === op || found.has(other)) continue;
      found.set(other, { op: other, tensor });
    }
  }
  return [...found.values()];
}

/** Columns of nodes from the inputs on the left to the users on the right, with their edges. */
function graphColumns(model, center) {
  const columns = [[{ op: center }]];
  const edges = [];
  const seen = new Set([center]);
  for (const side of ["inputs", "outputs"]) {
    let from = [columns[side === "inputs" ? 0 : columns.length - 1][0]];
    for (let depth = 0; depth < GRAPH.depth && from.length; depth += 1) {
      const next = [];
      let more = 0;
      for (const node of from) {
        if (node.op === undefined) continue;
        for (const other of graphNeighbors(model, node.op, side)) {
          const key = other.op === undefined ? `t${other.tensor}` : other.op;
          const known = next.find((each) => each.key === key);
          if (known) edges.push([node, known, side, other.tensor]);
          if (known || seen.has(key)) continue;
          if (next.length >= GRAPH.most) {
            more += 1;
            continue;
          }
          seen.add(key);
          const made = { ...other, key };
          next.push(made);
          edges.push([node, made, side, other.tensor]);
        }
      }
      if (more) next.push({ more });
      if (!next.length) break;
      if (side === "inputs") columns.unshift(next);
      else columns.push(next);
      from = next;
    }
  }
  return { columns, edges };
}

/** The graph as a drawing with buttons. */
function drawGraph(model, center) {
  const { columns, edges } = graphColumns(model, center);
  const most = Math.max(...columns.map((nodes) => nodes.length));
  const high = most * (GRAPH.high + GRAPH.gap);
  const places = new Map();
  columns.forEach((nodes, column) => {
    const top = (high - nodes.length * (GRAPH.high + GRAPH.gap)) / 2;
    nodes.forEach((node, row) =>
      places.set(node, [
        column * (GRAPH.wide + GRAPH.across),
        top + row * (GRAPH.high + GRAPH.gap),
      ]),
    );
  });
  const lines = edges.map(([a, b, side, tensor]) => {
    const [from, to] = side === "inputs" ? [b, a] : [a, b];
    const [x1, y1] = places.get(from);
    const [x2, y2] = places.get(to);
    return graphEdge(
      [x1 + GRAPH.wide, y1 + GRAPH.high / 2, x2, y2 + GRAPH.high / 2],
      `${model.tensors.name[tensor]}, ${bytes(model.tensors.bytes[tensor])}`,
    );
  });
  const width = columns.length * (GRAPH.wide + GRAPH.across);
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("width", width);
  drawing.setAttribute("height", high);
  drawing.append(...lines);
  const nodes = [...places].map(([node, [left, top]]) =>
    graphNode(model, node, left, top, node.op === center),
  );
  const area = make("div.area", {}, drawing, ...nodes);
  area.style.width = `${width}px`;
  area.style.height = `${high}px`;
  return area;
}

/** A line from an op to one that reads what it makes. */
function graphEdge([x1, y1, x2, y2], text) {
  const path = document.createElementNS(SVG, "path");
  const middle = (x1 + x2) / 2;
  path.setAttribute("d", `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`);
  const title = document.createElementNS(SVG, "title");
  title.textContent = text;
  path.append(title);
  return path;
}

/** An op, a tensor that no op makes, or how many there are besides. */
function graphNode(model, node, left, top, isCenter) {
  let element;
  if (node.more) element = make("div.node.soft", {}, `and ${whole(node.more)} more`);
  else if (node.op === undefined) {
    const name = model.tensors.name[node.tensor];
    element = make(
      "button.node.tensor",
      { type: "button", title: name, click: () => choose("tensor", node.tensor) },
      make("span", {}, name.slice(name.lastIndexOf("/") + 1)),
      make("small", {}, `${bytes(model.tensors.bytes[node.tensor])}, no op makes it`),
    );
  } else element = graphOp(model, node.op, isCenter);
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  return element;
}

/** The button of an op. */
function graphOp(model, op, isCenter) {
  const [row] = model.rowsOf(op);
  const name = model.ops.name[op];
  const cycles = row === undefined ? "no cycles" : `${whole(model.operations.cycles[row])} cycles`;
  const bound = row === undefined ? "" : model.text(model.operations.bound[row]);
  const element = make(
    `button.node${isCenter ? ".center" : ""}`,
    { type: "button", title: name, click: () => choose("op", op) },
    make("span", {}, bound ? swatch(bound, 8) : "", ` ${model.text(model.ops.type[op])}`),
    make("small", {}, `${cycles}, ${name.slice(name.lastIndexOf("/") + 1)}`),
  );
  return element;
}
