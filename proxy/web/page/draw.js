// What the status page draws with: elements, numbers, charts.

// element makes an element with attributes and children. A child that is not a node becomes text, and a list its items.
export function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") e.className = value;
    else if (value !== null && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

// setText changes a text only if it differs, so that screen readers stay quiet and selections stay.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// count writes a number in at most four characters.
export function count(n) {
  if (n === null || n === undefined) return "–";
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (n >= size) {
      const scaled = n / (unit === "k" ? 1e3 : size);
      return scaled.toFixed(scaled < 10 ? 1 : 0) + unit;
    }
  }
  return n < 10 && n % 1 !== 0 ? n.toFixed(1) : String(Math.round(n));
}

export function bits(bytesPerSecond) {
  if (bytesPerSecond === null || bytesPerSecond === undefined) return "–";
  let n = bytesPerSecond * 8;
  for (const unit of ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]) {
    if (n < 1000) return (n < 10 && n % 1 !== 0 ? n.toFixed(1) : Math.round(n)) + " " + unit;
    n /= 1000;
  }
  return n.toFixed(1) + " Tbit/s";
}

export function span(seconds) {
  if (seconds < 0.001) return Math.round(seconds * 1e6) + " µs";
  if (seconds < 1) return (seconds * 1000).toFixed(seconds < 0.1 ? 1 : 0) + " ms";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " days";
}

const svgSpace = "http://www.w3.org/2000/svg";

// graphic makes an SVG of a size. Shapes are lists of a tag and its attributes.
function graphic(width, height, label, ...shapes) {
  const svg = document.createElementNS(svgSpace, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  for (const [tag, attributes] of shapes) {
    const shape = document.createElementNS(svgSpace, tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    svg.append(shape);
  }
  return svg;
}

// chart draws values, the newest at the right, in room for as many as most. An unknown value is negative or null.
export function chart(values, most, label) {
  const [width, height] = [most - 1, 40];
  const known = (v) => v !== null && v !== undefined && v >= 0;
  if (values.filter(known).length < 2) return graphic(width, height, label);
  const top = Math.max(...values.filter(known)) || 1;
  const line = values.flatMap((v, i) => (known(v) ? [[width - values.length + 1 + i, (height - 2 - (v / top) * (height - 5)).toFixed(1)]] : []));
  const path = line.map((point) => point.join(" ")).join("L");
  return graphic(width, height, label,
    ["path", { class: "area", d: `M${line[0][0]} ${height}L${path}L${line.at(-1)[0]} ${height}Z` }],
    ["path", { class: "curve", d: "M" + path }]);
}

// share draws parts of a whole as a bar: pairs of a class and a number.
export function share(parts, label) {
  const whole = parts.reduce((sum, [, n]) => sum + n, 0) || 1;
  let at = 0;
  const svg = graphic(whole, 1, label, ...parts.map(([name, n]) => ["rect", { class: name, x: (at += n) - n, y: 0, width: n, height: 1 }]));
  svg.setAttribute("class", "share");
  return svg;
}

// icon is the favicon: a branching line in a colour; on a filled disc if something is wrong, so that it shows among
// many tabs.
export function icon(look) {
  const colour = { good: "%2317713f", warn: "%23b07a10", bad: "%23c0261c" }[look] || "%23778";
  const line = look === "good" ? colour : "white";
  const disc = look === "good" ? "" : `%3Ccircle cx='8' cy='8' r='8' fill='${colour}'/%3E`;
  return `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E${disc}%3Cpath d='M3 8h4m0 0 5-4m-5 4 5 4' fill='none' stroke='${line}' stroke-width='2.2' stroke-linecap='round'/%3E%3C/svg%3E`;
}
