// Numbers as people read them.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A whole number with separators; `-` for what is not known. */
function whole(value) {
  return value === null || value === undefined ? "-" : WHOLE.format(value);
}

/** A number divided by the largest unit that suits it. */
function scaled(value, base, units) {
  if (value === null || value === undefined) return "-";
  let index = 0;
  while (Math.abs(value) >= base && index < units.length - 1) {
    value /= base;
    index += 1;
  }
  const digits = Number.isInteger(value) && index === 0 ? String(value) : digitsOf(value);
  return `${digits} ${units[index]}`.trimEnd();
}

/** Three digits. */
function digitsOf(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** Bytes in binary units, such as `1.50 KiB`. */
function bytes(value) {
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
}

/** A count in decimal units, such as `1.50 M`. */
function count(value) {
  return scaled(value, 1000, ["", "k", "M", "G", "T", "P", "E"]);
}

/** Floating-point operations in a second. */
function rate(value) {
  return value ? `${count(value)}FLOP/s` : "-";
}

/** A part of a whole in percent. */
function percent(part, all) {
  if (part === null || part === undefined) return "-";
  const value = all ? (100 * part) / all : 0;
  return `${value > 0 && value < 0.05 ? "<0.1" : value.toFixed(1)} %`;
}

/** A time in a unit that suits it. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  for (const [unit, size] of [
    ["s", 1],
    ["ms", 1e-3],
    ["µs", 1e-6],
  ]) {
    if (seconds >= size) return `${digitsOf(seconds / size)} ${unit}`;
  }
  return `${digitsOf(seconds / 1e-9)} ns`;
}

/** A shape, such as `16 x 40`. */
function shapeText(shape) {
  return shape && shape.length ? shape.join(" x ") : "scalar";
}

/** A number with its sign. */
function signed(value, format) {
  return value > 0 ? `+${format(value)}` : value < 0 ? `−${format(-value)}` : "0";
}

/** A number of things with their name, such as `2 replicas`. */
function countOf(number, name) {
  return `${whole(number)} ${name}${number === 1 ? "" : "s"}`;
}

/** What a program runs on: replicas, how they are divided, and IPUs of each. */
function machineText({ replicas, instances, ipus_per_replica: ipus, title }) {
  const division =
    instances > 1 ? ` (${replicas / instances} in each of ${instances} instances)` : "";
  return `${countOf(replicas, "replica")}${division} of ${countOf(ipus, "IPU")}, ${title}`;
}
