// Tables of any length: only the rows in sight exist. Sorted by columns, worked with keys.

const ROW = 27;
const MARGIN = 12;
const PRINTED = 80;

/**
 * @typedef {Object} Column
 * @property {string} key - short name, unique in the table.
 * @property {string} title - heading.
 * @property {function(*): (number|string|null)} value - what it is sorted by.
 * @property {function(*): (Node|string)} [show] - what stands in the cell; the value if not given.
 * @property {string} [width] - of the CSS grid.
 * @property {boolean} [number] - whether it is aligned to the right, and sorted largest first.
 * @property {function(*): number} [part] - part of the cell from 0 to 1 with a bar behind it.
 * @property {string} [note] - what the column says, shown when it is pointed at.
 */

class Table {
  /**
   * @param {Object} options
   * @param {string} options.label - what the table shows, for those who cannot see it.
   * @param {Column[]} options.columns
   * @param {function(*): void} [options.open] - called with the row that is clicked or entered.
   * @param {function(*): string} [options.id] - a name for each row, to find it again.
   * @param {function(*): Array} [options.children] - makes it a tree: the rows below a row.
   * @param {string} [options.sort] - key of the column that it is sorted by at first.
   */
  constructor(options) {
    this.options = options;
    this.columns = options.columns;
    this.source = [];
    this.shown = [];
    this.opened = new Set();
    this.current = 0;
    this.chosen = null;
    this.sort = { key: options.sort || null, down: this.downFirst(options.sort) };
    this.template = this.columns.map((column) => column.width || "110px").join(" ");
    this.head = this.makeHead();
    this.body = make("div.body", { role: "rowgroup" });
    this.rows = make("div.rows", { role: "presentation" }, this.head, this.body);
    this.empty = make("div.empty", { hidden: true }, "Nothing to show.");
    this.element = make(
      "div.grid",
      {
        role: options.children ? "treegrid" : "grid",
        tabindex: 0,
        "aria-label": options.label,
        scroll: () => this.draw(),
        redraw: () => this.drawAnew(),
        keydown: (event) => this.onKey(event),
      },
      this.rows,
      this.empty,
    );
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Whether a column is sorted from its largest value at first. */
  downFirst(key) {
    const column = this.columns.find((each) => each.key === key);
    return Boolean(column && column.number);
  }

  /** Makes the headings. */
  makeHead() {
    const cells = this.columns.map((column, index) => {
      const press = () => this.sortBy(column.key);
      return make(
        `div.cell${column.number ? ".n" : ""}${index ? "" : ".first"}`,
        { role: "columnheader", title: column.note || column.title },
        make(`button${column.number ? ".n" : ""}`, { type: "button", click: press }, column.title),
      );
    });
    const row = make("div.row.head", { role: "row", "aria-rowindex": 1 }, ...cells);
    row.style.gridTemplateColumns = this.template;
    return row;
  }

  /** Shows other rows. */
  fill(rows) {
    this.source = rows;
    this.widen(rows);
    this.arrange();
  }

  /** Makes columns of numbers wide enough for the longest of them. */
  widen(rows) {
    const widths = this.columns.map((column) => {
      const given = column.width || "110px";
      if (!column.number || !rows.length || !given.endsWith("px")) return given;
      let most = rows[0];
      for (const row of rows) {
        if (Math.abs(column.value(row) || 0) > Math.abs(column.value(most) || 0)) most = row;
      }
      const content = column.show ? column.show(most) : column.value(most);
      const text = content && content.textContent !== undefined ? content.textContent : content;
      return `${Math.max(parseInt(given, 10), 20 + 8 * String(text ?? "").length)}px`;
    });
    this.template = widths.join(" ");
    this.head.style.gridTemplateColumns = this.template;
  }

  /** Sorts by a column; a second time the other way round. */
  sortBy(key) {
    const again = this.sort.key === key;
    this.sort = { key, down: again ? !this.sort.down : this.downFirst(key) };
    this.element.scrollTop = 0;
    this.current = 0;
    this.arrange();
  }

  /** Rows in the order of the column that is sorted by. */
  ordered(rows) {
    const column = this.columns.find((each) => each.key === this.sort.key);
    if (!column) return rows;
    const sign = this.sort.down ? -1 : 1;
    const keyed = rows.map((row, index) => [column.value(row), index, row]);
    keyed.sort(([a, i], [b, j]) => {
      if (a === b) return i - j;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
      return sign * order || i - j;
    });
    return keyed.map((each) => each[2]);
  }

  /** Finds out which rows are shown, in which order, and draws them. */
  arrange() {
    this.shown = [];
    const add = (rows, depth) => {
      for (const row of this.ordered(rows)) {
        const below = this.below(row);
        this.shown.push({ row, depth, below: below.length });
        if (below.length && this.opened.has(this.name(row))) add(below, depth + 1);
      }
    };
    add(this.source, 1);
    this.current = Math.min(this.current, Math.max(0, this.shown.length - 1));
    this.columns.forEach((column, index) => {
      const cell = this.head.children[index];
      if (column.key !== this.sort.key) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
    });
    this.element.setAttribute("aria-rowcount", this.shown.length + 1);
    this.empty.hidden = this.shown.length > 0;
    this.body.style.height = `${this.shown.length * ROW}px`;
    this.drawn = "";
    this.draw();
  }

  /** The rows below a row of a tree. */
  below(row) {
    return this.options.children ? this.options.children(row) : [];
  }

  /** The name of a row. */
  name(row) {
    return this.options.id ? this.options.id(row) : String(this.source.indexOf(row));
  }

  /** Makes the rows in sight. */
  draw() {
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
    const count = Math.ceil((this.element.clientHeight || 600) / ROW) + 2 * MARGIN;
    const last = printing ? Math.min(this.shown.length, PRINTED) : first + count;
    const state = `${first} ${last} ${this.current} ${this.chosen} ${this.shown.length}`;
    if (state === this.drawn) return;
    this.drawn = state;
    const rows = this.shown.slice(printing ? 0 : first, last);
    fill(
      this.body,
      rows.map((each, index) => this.makeRow(each, (printing ? 0 : first) + index)),
    );
    const current = this.body.querySelector(".current");
    if (current) this.element.setAttribute("aria-activedescendant", current.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** Draws rows that may look different now, as for the printer. */
  drawAnew() {
    this.drawn = "";
    this.draw();
  }

  /** Makes the element of a row. */
  makeRow({ row, depth, below }, index) {
    const tree = Boolean(this.options.children);
    const name = this.name(row);
    const element = make(`div.row${index === this.current ? ".current" : ""}`, {
      role: "row",
      id: `${this.id()}-${index}`,
      "aria-rowindex": index + 2,
      "aria-selected": String(this.chosen === name),
      "aria-level": tree ? depth : null,
      "aria-expanded": tree && below ? String(this.opened.has(name)) : null,
      click: (event) => this.onClick(event, index),
      dblclick: () => tree && below && this.toggle(index),
    });
    element.style.top = `${index * ROW}px`;
    element.style.gridTemplateColumns = this.template;
    this.columns.forEach((column, place) => element.append(this.makeCell(column, row, place)));
    if (tree) this.indent(element.firstChild, depth, below, name);
    return element;
  }

  /** Makes a cell. */
  makeCell(column, row, place) {
    const content = column.show ? column.show(row) : column.value(row);
    const text = content === null || content === undefined ? "-" : content;
    const cell = make(
      `div.cell${column.number ? ".n" : ""}${place ? "" : ".first"}`,
      {
        role: tableCell(place, Boolean(this.options.children)),
        title: typeof text === "string" && text.length > 12 ? text : null,
      },
      typeof text === "number" ? whole(text) : text,
    );
    if (column.part) {
      const part = Math.min(100, 100 * (column.part(row) || 0));
      cell.classList.add("share");
      cell.style.setProperty("--part", `${part < 0.5 ? 0 : part.toFixed(1)}%`);
    }
    return cell;
  }

  /** Moves the first cell of a row of a tree to its depth. */
  indent(cell, depth, below, name) {
    cell.style.paddingLeft = `${4 + (depth - 1) * 15}px`;
    const sign = below ? (this.opened.has(name) ? "▾" : "▸") : "";
    cell.prepend(make("span.twist", { "aria-hidden": "true" }, sign));
  }

  /** A name for the element, for those of its rows. */
  id() {
    if (!this.element.id) this.element.id = `table${(Table.made = (Table.made || 0) + 1)}`;
    return this.element.id;
  }

  /** Opens the row that is clicked, or what is below it. */
  onClick(event, index) {
    this.current = index;
    if (event.target.classList.contains("twist")) this.toggle(index);
    else this.enter(index);
  }

  /** Opens or closes a row of a tree. */
  toggle(index) {
    const name = this.name(this.shown[index].row);
    if (!this.opened.delete(name)) this.opened.add(name);
    this.arrange();
  }

  /** Chooses a row. */
  enter(index) {
    const each = this.shown[index];
    if (!each) return;
    this.chosen = this.name(each.row);
    this.draw();
    if (this.options.open) this.options.open(each.row);
  }

  /** Moves, opens and chooses by keys. */
  onKey(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in steps) this.moveTo(this.current + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.enter(this.current);
    else if (event.key === "ArrowRight" && this.options.children) this.inward();
    else if (event.key === "ArrowLeft" && this.options.children) this.outward();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Opens the current row, or goes to the first one below it. */
  inward() {
    const each = this.shown[this.current];
    if (!each || !each.below) return;
    if (this.opened.has(this.name(each.row))) this.moveTo(this.current + 1);
    else this.toggle(this.current);
  }

  /** Closes the current row, or goes to the one above it. */
  outward() {
    const each = this.shown[this.current];
    if (!each) return;
    if (each.below && this.opened.has(this.name(each.row))) return this.toggle(this.current);
    let index = this.current;
    while (index > 0 && this.shown[index].depth >= each.depth) index -= 1;
    this.moveTo(index);
  }

  /** Makes a row the current one, and brings it into sight. */
  moveTo(index) {
    this.current = Math.max(0, Math.min(this.shown.length - 1, index));
    const top = this.current * ROW;
    const height = this.element.clientHeight - 31 - ROW;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + height) this.element.scrollTop = top - height;
    this.draw();
  }

  /** Marks the row of a name; with `reveal` it is brought into sight, too. */
  choose(name, reveal = false) {
    this.chosen = name;
    const index = reveal ? this.shown.findIndex((each) => this.name(each.row) === name) : -1;
    if (index >= 0) this.moveTo(index);
    else this.draw();
  }
}

/** The role of a cell: the first of a row is its heading. */
function tableCell(place, tree) {
  return place || tree ? "gridcell" : "rowheader";
}

/** Whether the page is being printed: then tables show their first rows, all of them made. */
let printing = false;
