// Elements, and what of the style scripts have to know.

/**
 * Makes an element. Texts become text nodes: nothing that a report says becomes markup.
 * @param {string} tag - name of the element, with classes as in `div.card`.
 * @param {Object} [attributes] - attributes; functions are listeners, `null` and `false` nothing.
 * @param {...(Node|string|number|null)} children - what is in it.
 * @returns {HTMLElement}
 */
function make(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") element.append(child);
  }
  return element;
}

/**
 * Replaces what is in an element.
 * @param {Element} element
 * @param {...(Node|string)} children
 */
function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== ""));
}

/** A button that looks like a link. */
function link(text, open, title = null) {
  return make(
    "button.link",
    { type: "button", click: open, title, "aria-label": typeof text === "string" ? text : null },
    typeof text === "string" ? pathText(text) : text,
  );
}

/** A name whose end stays in sight where there is no room for all of it. */
function pathText(name) {
  const cut = name.lastIndexOf("/") + 1;
  if (!cut) return name;
  return make(
    "span.path",
    { title: name },
    make("span.lead", {}, name.slice(0, cut)),
    make("span.last", {}, name.slice(cut)),
  );
}

/** A name that may go on in the next line after each of its slashes. */
function breakable(name) {
  return name.split("/").flatMap((part, i) => (i ? ["/", make("wbr"), part] : [part]));
}

/** Number of the series color of each name; all other names get the next free ones. */
const COLORS = {
  compute: 0,
  exchange: 1,
  sync: 3,
  host: 2,
  transfer: 17,
  streaming: 4,
  link: 5,
  collective: 6,
  idle: 9,
  forward: 18,
  backward: 19,
  update: 20,
  recompute: 21,
  AMP: 0,
  vector: 7,
  "load/store": 6,
  exact: 2,
  modelled: 0,
  assumed: 1,
  "always live": 0,
  "not always live": 1,
  variables: 0,
  "optimizer state": 4,
  "gradient accumulators": 6,
  stash: 5,
  activations: 1,
  temporaries: 3,
  inputs: 2,
  constants: 10,
  "host streams": 11,
  streamed: 16,
  "vertex code": 7,
  "control code": 8,
  "exchange code": 12,
  "vertex state": 13,
  stack: 14,
  "packet headers": 15,
  gaps: 9,
};
const SERIES = 10;

/** The name of the CSS variable with the color of a series. */
function colorName(name, index = 0) {
  return `--c${name in COLORS ? COLORS[name] : index % (SERIES - 1)}`;
}

/** A square in the color of a series. */
function swatch(name, index) {
  const square = make("i.swatch");
  square.style.background = `var(${colorName(name, index)})`;
  return square;
}

const probe = make("i", { hidden: true });

/** The color of a CSS variable in the theme in force, for drawing. */
function themed(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** Calls a function at the next frame, once however often it is asked for. */
function atNextFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

const hint = make("div.hint", { hidden: true, role: "tooltip" });

/** Shows lines beside the pointer. */
function showHint(event, ...lines) {
  fill(hint, ...lines);
  hint.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = hint;
  const left =
    event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  hint.style.left = `${Math.max(4, left)}px`;
  hint.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 6))}px`;
}

/** Takes it away. */
function hideHint() {
  hint.hidden = true;
}
