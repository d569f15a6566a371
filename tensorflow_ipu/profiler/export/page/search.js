// Search over layers, operations, tensors and lines of the program.

const FOUND = 60;

/**
 * The field of the search and what it finds.
 * @param {Model} model
 */
function searchField(model) {
  const entries = lazily(() => searchEntries(model));
  const list = make("ul.found", { role: "listbox", id: "found", hidden: true });
  const input = make("input.field", {
    type: "text",
    role: "combobox",
    placeholder: "Search",
    "aria-label": "search layers, ops, tensors and lines",
    "aria-controls": "found",
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  let found = [];
  let at = 0;
  const mark = (index) => {
    at = Math.max(0, Math.min(found.length - 1, index));
    [...list.children].forEach((each, i) => each.setAttribute("aria-selected", String(i === at)));
    const line = list.children[at];
    if (line) line.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", line ? line.id : "");
  };
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const take = (index) => {
    if (found[index]) found[index].open();
    close();
    input.blur();
  };
  const look = () => {
    found = searched(entries(), input.value);
    fill(
      list,
      found.map((each, i) => foundLine(each, i, input.value, () => take(i))),
    );
    if (input.value.trim() && !found.length) fill(list, make("li.soft", {}, "Nothing found."));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(0);
  };
  input.addEventListener("input", look);
  input.addEventListener("focus", () => input.value.trim() && look());
  input.addEventListener("blur", () => setTimeout(close, 150));
  input.addEventListener("keydown", (event) => {
    const acts = {
      ArrowDown: () => mark(at + 1),
      ArrowUp: () => mark(at - 1),
      Enter: () => take(at),
      Escape: () => (close(), input.blur()),
    };
    if (!(event.key in acts)) return;
    acts[event.key]();
    event.preventDefault();
    event.stopPropagation();
  });
  const element = make(
    "div.search",
    { role: "search" },
    input,
    make("kbd", { "aria-hidden": "true" }, "/"),
    list,
  );
  return { element, focus: () => (input.focus(), input.select()) };
}

/** Everything that can be found: `text` is searched, `note` is shown behind it. */
function searchEntries(model) {
  const { layers, ops, tensors, operations } = model;
  const entries = range(model.layerCount)
    .slice(1)
    .map((layer) =>
      entry("layer", layers.path[layer], `${whole(layers.cycles[layer])} cycles`, () =>
        choose("layer", layer),
      ),
    );
  range(model.opCount).forEach((op) =>
    entries.push(entry("op", ops.name[op], model.text(ops.type[op]), () => choose("op", op))),
  );
  range(model.rowCount)
    .filter((row) => operations.op[row] === null)
    .forEach((row) =>
      entries.push(
        entry("op", operations.name[row], model.text(operations.type[row]), () =>
          choose("transfer", row),
        ),
      ),
    );
  range(model.tensorCount).forEach((tensor) =>
    entries.push(
      entry("tensor", tensors.name[tensor] || "", bytes(tensors.bytes[tensor]), () =>
        choose("tensor", tensor),
      ),
    ),
  );
  for (const [source, all] of grouped(ops.source)) {
    const text = model.text(source);
    if (text)
      entries.push(
        entry("line", text, `${whole(all.length)} ops`, () =>
          go({ view: "operations", q: text, bound: "" }),
        ),
      );
  }
  return entries;
}

/** One thing that can be found. */
function entry(kind, text, note, open) {
  return { kind, text, note, open, low: `${text} ${kind === "op" ? note : ""}`.toLowerCase() };
}

/** The best entries that have all words. */
function searched(entries, asked) {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const each of entries) {
    const places = words.map((word) => each.low.indexOf(word));
    if (places.some((place) => place < 0)) continue;
    const inside = places.some((place) => place > 0 && /\w/.test(each.low[place - 1]));
    const kind = ["layer", "op", "tensor", "line"].indexOf(each.kind);
    found.push([(inside ? 1e6 : 0) + each.text.length + kind, each]);
  }
  return found
    .sort((a, b) => a[0] - b[0])
    .slice(0, FOUND)
    .map((each) => each[1]);
}

/** A line of what was found. */
function foundLine({ kind, text, note }, index, asked, take) {
  return make(
    "li",
    {
      role: "option",
      id: `found-${index}`,
      mousedown: (event) => (event.preventDefault(), take()),
    },
    make("span.kind", {}, kind),
    make("span.what", { title: text }, ...marked(text, asked)),
    make("span.soft", {}, note),
  );
}

/** A text with the words of the search marked. */
function marked(text, asked) {
  const words = asked
    .trim()
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!words.length) return [text];
  const parts = text.split(new RegExp(`(${words.join("|")})`, "i"));
  return parts.map((part, i) => (i % 2 ? make("mark", {}, part) : part));
}
