// The status page. It asks for status.json every two seconds and shows it. Text from there is inserted as
// text, never as markup.

import { stateLooks, endpointLooks, eventLooks, healthLooks, causeLooks, modeLooks } from "./lists.js"; // web/lists.go makes it

const period = 2000; // ms between two requests
const samples = 120; // points of a chart: the last four minutes
const fewest = 30; // points that a new chart has room for
const pageSize = 50;
const keptEvents = 100;

const $ = (id) => document.getElementById(id);
const query = { search: "", show: "", sort: "", offset: 0, service: "" };
const series = new Map(); // rates of services by name; "" is the sum of all
let events = []; // newest first
let last = null; // the last answer
let paused = false;
let timer = 0;

// element makes an element with attributes and children. A child that is not a node becomes text.
function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") e.className = value;
    else if (value !== null && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

// setText changes a text only if it differs, so that screen readers stay quiet and selections stay.
function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// count writes a number in at most four characters.
function count(n) {
  if (n === null || n === undefined) return "–";
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (n >= size) {
      const scaled = n / (unit === "k" ? 1e3 : size);
      return scaled.toFixed(scaled < 10 ? 1 : 0) + unit;
    }
  }
  return n < 10 && n % 1 !== 0 ? n.toFixed(1) : String(Math.round(n));
}

function bits(bytesPerSecond) {
  if (bytesPerSecond === null || bytesPerSecond === undefined) return "–";
  let n = bytesPerSecond * 8;
  for (const unit of ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]) {
    if (n < 1000) return (n < 10 && n % 1 !== 0 ? n.toFixed(1) : Math.round(n)) + " " + unit;
    n /= 1000;
  }
  return n.toFixed(1) + " Tbit/s";
}

function span(seconds) {
  if (seconds < 0.001) return Math.round(seconds * 1e6) + " µs";
  if (seconds < 1) return (seconds * 1000).toFixed(seconds < 0.1 ? 1 : 0) + " ms";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " days";
}

// ago compares two times of the server's clock.
function ago(time) {
  if (!time) return "never";
  const seconds = (Date.parse(last.time) - Date.parse(time)) / 1000;
  return seconds < 1 ? "just now" : span(seconds) + " ago";
}

const short = (name) => name.replace(/^default\//, "");

// rates records the counters of one service and returns its rates per second; a rate is null if not known yet. In
// mode iptables nothing counts, and traffic and active are undefined.
function rates(name, time, traffic, active) {
  let h = series.get(name);
  if (!h) series.set(name, (h = { time: 0, traffic: null, points: [], now: {} }));
  if (time < h.time) h.time = 0, h.traffic = null; // the clock was set back
  if (time - h.time < period * 0.7) return h; // an extra request after a click adds no point
  const seconds = (time - h.time) / 1000;
  const rate = (counter) => {
    const more = h.traffic && traffic ? traffic[counter] - h.traffic[counter] : -1;
    return more < 0 || seconds <= 0 || seconds > 60 ? null : more / seconds; // the counter restarted, or there was no answer for a minute
  };
  h.now = { conns: rate("connections"), in: rate("inBytes"), out: rate("outBytes"), active };
  h.points.push(h.now);
  if (h.points.length > samples) h.points.shift();
  h.time = time;
  h.traffic = traffic;
  return h;
}

const svgSpace = "http://www.w3.org/2000/svg";

// chart draws a series, the newest point at the right.
function chart(points, key, label) {
  const svg = document.createElementNS(svgSpace, "svg");
  const [width, height] = [Math.max(points.length, fewest) - 1, 40];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  const known = points.map((p) => p[key]).filter((v) => v !== null && v !== undefined);
  if (known.length < 2) return svg;
  const most = Math.max(...known) || 1;
  const line = points.flatMap((p, i) => {
    const value = p[key];
    if (value === null || value === undefined) return [];
    return [`${width - points.length + 1 + i} ${(height - 2 - (value / most) * (height - 5)).toFixed(1)}`];
  });
  const draw = (d, name) => {
    const path = document.createElementNS(svgSpace, "path");
    path.setAttribute("d", d);
    path.setAttribute("class", name);
    svg.append(path);
  };
  draw(`M${line[0].split(" ")[0]} ${height}L${line.join("L")}L${width} ${height}Z`, "area");
  draw("M" + line.join("L"), "curve");
  return svg;
}

function showHead(s) {
  setText($("node"), s.daemon.node);
  document.title = `svcproxy ${s.daemon.node}`;
  const d = s.daemon;
  setText($("about"), `${d.mode}${d.modeReason ? " (" + d.modeReason + ")" : ""} · ${d.version}${d.iptables ? " · " + d.iptables : ""} · up ${span((Date.parse(s.time) - Date.parse(d.started)) / 1000)}`);
  const [text, look] = !s.healthy ? ["not in sync", "bad"] : s.problems.length ? ["degraded", "warn"]
    : s.totals.withoutBackends ? [`${s.totals.withoutBackends} without backends`, "warn"] : ["healthy", "good"];
  setText($("health"), text);
  $("health").className = "badge " + look;
}

function showTrouble(s) {
  const list = (title, lines) => (lines.length ? [element("h2", {}, title), element("ul", {}, ...lines.map((l) => element("li", {}, l)))] : []);
  const faults = s.faults.map((f) => `${f.op}: ${f.error} (tried ${f.count} times, since ${ago(f.since)})`);
  const all = [
    ...list("What is wrong", s.problems), ...list("Refused by the kernel", faults),
    ...list("Warnings", s.warnings), ...list("Needs a restart", s.daemon.config.restart || []),
  ];
  $("trouble").hidden = all.length === 0;
  $("trouble").className = s.problems.length ? "" : "mild";
  $("trouble").replaceChildren(...all);
}

function showTiles(s) {
  const h = rates("", Date.parse(s.time), s.totals.traffic, s.totals.active);
  const t = s.totals;
  const tile = (value, text, key) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, text), key ? chart(h.points, key, `${text}: ${value}`) : "");
  const checks = s.health && s.health.targets ? `${count(s.health.states.up + s.health.states.failing)} of ${count(s.health.targets)} targets up` : "";
  const also = [`${count(t.virtuals)} addresses`, `${count(t.reals)} ${s.uncounted ? "backends" : "real servers"}`, t.draining ? `${t.draining} draining` : "",
    t.withoutBackends ? `${t.withoutBackends} without backends` : "", t.leftOut ? `${t.leftOut} left out` : "", checks,
    s.conntrack && s.conntrack.max ? `${count(s.conntrack.count)} of ${count(s.conntrack.max)} connections tracked` : ""];
  $("tiles").replaceChildren(
    tile(count(h.now.conns), "connections per second", "conns"),
    tile(bits(h.now.in), "in", "in"),
    tile(bits(h.now.out), "out", "out"),
    tile(count(t.active), "active connections", "active"),
    element("div", { class: "tile" }, element("b", {}, count(t.services)), element("span", {}, "services"), element("p", {}, also.filter(Boolean).join(" · "))),
  );
}

const badge = (state, looks) => element("span", { class: "state " + (looks[state] || "") }, state);

const fullAddress = (v) => v.address + (v.protocol === "tcp" ? "" : "/" + v.protocol);

// serviceHealth says how many endpoints of a service are up, and in which groups others serve than those.
function serviceHealth(h) {
  if (!h) return "–";
  const parts = [h.checked ? `${h.up}/${h.checked} up` : "", h.held ? `${h.held} held` : "", h.out ? `${h.out} out` : ""].filter(Boolean).join(", ");
  const look = h.down || h.held || h.out ? "warn" : h.checked ? "good" : "";
  return element("span", {}, parts ? element("span", { class: "state " + look }, parts) : "", ...h.groups.map((g) => element("span", { class: "state " + (modeLooks[g.mode] || "") }, g.mode)));
}

// endpointHealth says why an endpoint has its weight.
function endpointHealth(h) {
  if (!h) return "–";
  const look = h.cause === "serves" ? (h.flapping ? "warn" : healthLooks[h.state]) : causeLooks[h.cause];
  return element("span", { class: "state wrap " + (look || "") }, h.text);
}

const weight = (e) => (e.health && e.health.sourceWeight !== e.weight ? `${e.weight} (source ${e.health.sourceWeight})` : String(e.weight));

// Rows have explicit roles: on a narrow screen CSS lays them out as cards, and browsers then drop their table
// roles.
function serviceRow(s, time) {
  const h = rates(s.name, time, s.traffic, s.active);
  const open = query.service === s.name;
  const toggle = element("button", { type: "button", class: "toggle", "aria-expanded": String(open), "data-name": s.name }, short(s.name));
  const first = s.virtuals.find((v) => v.kind !== "nodePort" && v.kind !== "clusterIP") || s.virtuals[0];
  const others = s.virtuals.length - 1;
  const cell = (text, label) => element("td", { role: "cell", class: "number", "data-label": label }, text);
  const row = element("tr", { class: "service", role: "row" },
    element("th", { scope: "row", role: "rowheader", class: "wide" }, toggle, element("div", { class: "kind" }, s.type)),
    element("td", { role: "cell", class: "address wide" }, first ? element("span", { class: "mono" }, fullAddress(first)) : "–", others > 0 ? element("span", { class: "reason" }, ` +${others}`) : ""),
    cell(`${s.backends.serving}/${s.backends.serving + s.backends.unused}`, "backends"),
    cell(count(s.active), "active"),
    cell(count(h.now.conns), "conns/s"),
    element("td", { role: "cell", class: "chart wide" }, chart(h.points, "conns", `connections per second to ${s.name}: ${count(h.now.conns)}`)),
    cell(bits(h.now.in), "in"),
    cell(bits(h.now.out), "out"),
    last.health ? element("td", { role: "cell", class: "wide health", "data-label": "health" }, serviceHealth(s.health)) : "",
    element("td", { role: "cell", class: "wide" }, badge(s.state, stateLooks), " ", s.backends.draining ? element("span", { class: "state warn" }, `${s.backends.draining} draining`) : "",
      s.reason && s.state !== "not served" ? element("div", { class: "reason" }, s.reason) : ""));
  return row;
}

function grid(caption, head, rows) {
  return element("table", {}, element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col", class: h.startsWith(">") ? "number" : "" }, h.replace(">", ""))))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((c, i) => element("td", { class: head[i] === "" ? "chart" : head[i].startsWith(">") ? "number" : "mono" }, c))))));
}

function timeLeft(e) {
  if (!e.drain) return "";
  if (!e.drain.deadline) return ` for ${span((Date.parse(last.time) - Date.parse(e.drain.since)) / 1000)}`;
  return ` ${span(Math.max(0, (Date.parse(e.drain.deadline) - Date.parse(last.time)) / 1000))} left`;
}

function detailRow(s) {
  const body = element("div", {});
  const facts = [s.type, "from " + s.origin, s.sessionAffinity ? "affinity " + s.sessionAffinity : "",
    s.externalTrafficPolicy === "Local" ? "external policy Local" : "", s.internalTrafficPolicy === "Local" ? "internal policy Local" : "",
    s.loadBalancerSourceRanges ? "load balancer for " + s.loadBalancerSourceRanges.join(" ") + " only" : ""];
  body.append(element("p", { class: "reason" }, facts.filter(Boolean).join(", ")));
  for (const f of s.faults) body.append(element("p", { class: "reason" }, `refused by the kernel: ${f.op}: ${f.error}`));
  if (s.virtuals.length) {
    body.append(grid("Addresses", ["Address", "Kind", "Scheduler", ">Backends", ">Connections", "State"],
      s.virtuals.map((v) => [fullAddress(v), v.kind, v.scheduler, String(v.backends), count(v.traffic && v.traffic.connections), badge(v.conflict ? "conflict" : v.missing || v.gone ? "missing" : v.backends ? "serving" : "no backends", stateLooks)])));
  }
  if (s.endpoints.length) {
    const listed = s.endpoints.slice(0, 200);
    const caption = listed.length < s.endpoints.length ? `Endpoints (the first ${listed.length} of ${s.endpoints.length})` : "Endpoints";
    const time = Date.parse(last.time);
    const seen = (e) => e.traffic ? rates(`${s.name} ${e.port} ${e.address}`, time, e.traffic, e.active) : { now: {}, points: [] };
    const health = s.health ? ["Health"] : [];
    body.append(grid(caption, ["Endpoint", "Port", "Node", ">Weight", ">Active", ">Inactive", ">Conns/s", "", "State", ...health],
      listed.map((e) => {
        const h = seen(e);
        return [e.address, e.port || "–", e.node || "–", weight(e), count(e.active), count(e.inactive), count(h.now.conns),
          chart(h.points, "conns", `connections per second to ${e.address}: ${count(h.now.conns)}`),
          element("span", {}, badge(e.state, endpointLooks), (e.reason ? " " + e.reason : "") + timeLeft(e)), ...health.map(() => endpointHealth(e.health))];
      })));
  }
  return element("tr", { class: "detail", role: "row" }, element("td", { role: "cell", colspan: last.health ? "10" : "9" }, body));
}

function showServices(s) {
  const time = Date.parse(s.time);
  const rows = [];
  for (const service of s.services) {
    rows.push(serviceRow(service, time));
    if (s.detail && service.name === query.service && s.detail.name === query.service) rows.push(detailRow(s.detail));
  }
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.name : undefined;
  const scrolled = document.querySelector("tr.detail td > div") ? document.querySelector("tr.detail td > div").scrollLeft : 0;
  $("health-column").hidden = !s.health;
  $("rows").replaceChildren(...rows);
  if (focused !== undefined) focusRow((b) => b.dataset.name === focused);
  if (scrolled) document.querySelector("tr.detail td > div").scrollLeft = scrolled;
  const from = s.matching ? s.offset + 1 : 0;
  const to = s.offset + s.services.length;
  setText($("matching"), s.matching === s.totals.services ? "" : `${s.matching} of ${s.totals.services}`);
  $("none").hidden = s.services.length > 0;
  setText($("none"), s.totals.services + s.totals.leftOut ? "No service matches." : "There are no services.");
  $("services").hidden = s.services.length === 0;
  $("pager").hidden = s.matching <= pageSize;
  setText($("range"), `${from}–${to} of ${s.matching}`);
  $("previous").disabled = s.offset === 0;
  $("next").disabled = to >= s.matching;
  query.offset = s.offset;
  if (series.size > 2000) for (const [name, h] of series) if (name && time - h.time > 600e3) series.delete(name);
}

function focusRow(wanted) {
  const found = [...document.querySelectorAll(".toggle")].find(wanted);
  if (found) found.focus({ preventScroll: true });
}

function showDrains(s) {
  $("drains-section").hidden = s.drains.length === 0;
  $("drains").replaceChildren(...s.drains.map((d) => element("li", {},
    element("b", {}, short(d.service)), " ", element("span", { class: "mono" }, d.address), " ",
    element("span", { class: "faint" }, `${count(d.active + d.inactive)} connections,${timeLeft(d)}`))));
}

function showOrders(s) {
  const orders = s.health ? [...s.health.overrides] : [];
  if (s.daemon.drain) orders.unshift({ verb: "drain", target: "this node", ...s.daemon.drain });
  $("orders-section").hidden = orders.length === 0;
  $("orders").replaceChildren(...orders.map((o) => element("li", {},
    element("b", {}, o.verb + (o.weight ? " " + o.weight : "")), " ", element("span", { class: "mono" }, o.target), o.why ? ` ${o.why} ` : " ",
    element("span", { class: "faint" }, `by ${o.by || "uid " + o.uid} ${ago(o.since)}${o.until ? ", until " + new Date(o.until).toLocaleString() : ""}`))));
}

function showSources(s) {
  $("sources").replaceChildren(...s.sources.map((source) => {
    const [text, look] = source.errors.length ? ["error", "bad"] : source.delivered ? ["good", "good"] : ["waiting", "warn"];
    return element("li", {}, element("span", { class: "state " + look }, text), element("b", {}, source.name), element("span", { class: "faint" }, ` since ${ago(source.since)}`),
      ...source.errors.map((e) => element("div", { class: "mono" }, e)));
  }));
  const y = s.sync;
  const facts = [["Last", y.cause ? `${ago(y.start)} (${y.cause}), took ${span(y.seconds)}` : "none yet"], ["Succeeded", ago(y.succeeded)]];
  const ops = (c) => `${ago(c.acknowledged)} (${c.cause}): +${c.add} ~${c.change} −${c.remove}`;
  if (y.change) facts.push(["Change", `${ops(y.change)}, served in ${span(y.change.totalSeconds)}`]);
  if (y.drift) facts.push(["Drift", ops(y.drift)]);
  if (y.error) facts.push([`Failed ${y.failures}×`, y.error]);
  if (y.waiting.length) facts.push(["Waiting for", y.waiting.join(", ")]);
  facts.push(["Configuration", s.daemon.config.file || "defaults"]);
  $("sync").replaceChildren(...facts.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
}

// named lists the services of an event.
function named(e) {
  if (!e.services) return "";
  const more = e.services.length - 3 + (e.moreServices || 0);
  return ": " + e.services.slice(0, 3).map(short).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function eventItem(e) {
  const total = e.times ? (Date.parse(e.times.acknowledged) - Date.parse(e.times.seen || e.times.parsed)) / 1000 : null;
  return element("li", {}, element("time", { datetime: e.time }, new Date(e.time).toLocaleTimeString()), " ",
    element("span", { class: "state " + (eventLooks[e.kind] || "") }, e.kind), e.text, named(e),
    e.ops ? element("span", { class: "faint" }, ` (+${e.ops.add} ~${e.ops.change} −${e.ops.remove}${e.ops.failed ? `, ${e.ops.failed} failed` : ""}${total === null ? "" : `, served in ${total ? span(total) : "less than 1 ms"}`})`) : "");
}

function showEvents(s) {
  if (events.length && s.events.length && s.events[0].seq <= events[0].seq) events = []; // svcproxy was restarted
  if (!s.events.length && events.length) return;
  events = [...s.events.slice().reverse(), ...events].slice(0, keptEvents);
  $("events").replaceChildren(...(events.length ? events.map(eventItem) : [element("li", { class: "faint" }, "nothing yet")]));
}

function show(s) {
  last = s;
  showHead(s);
  showTrouble(s);
  showTiles(s);
  showServices(s);
  showDrains(s);
  showOrders(s);
  showSources(s);
  showEvents(s);
  setText($("updated"), "as of " + new Date(s.time).toLocaleTimeString());
}

// away says that there is no answer. The last answer stays on the page, greyed out.
function away(reason) {
  $("away").hidden = !reason;
  setText($("away"), reason ? `svcproxy does not answer (${reason}); ${last ? "the status below is from " + new Date(last.time).toLocaleTimeString() : "there is no status yet"}.` : "");
  document.querySelector("main").classList.toggle("stale", Boolean(reason));
}

let asking = null; // the AbortController of the request in progress

async function ask() {
  clearTimeout(timer);
  if (asking) asking.abort();
  const mine = (asking = new AbortController());
  const q = new URLSearchParams({ limit: pageSize, after: events.length ? events[0].seq : 0 });
  for (const [name, value] of Object.entries(query)) if (value) q.set(name, value);
  try {
    const answer = await fetch("status.json?" + q, { signal: mine.signal });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    const s = await answer.json();
    if (mine !== asking) return; // a newer request was sent
    show(s);
    away("");
  } catch (e) {
    if (mine !== asking || e.name === "AbortError") return;
    away(e.message);
  }
  asking = null;
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(ask, period);
}

function change(changes) {
  Object.assign(query, changes);
  ask();
}

let typing = 0;
$("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ search: $("search").value.trim(), offset: 0 }), 150);
});
$("show").addEventListener("change", () => change({ show: $("show").value, offset: 0 }));
$("sort").addEventListener("change", () => change({ sort: $("sort").value, offset: 0 }));
$("previous").addEventListener("click", () => change({ offset: Math.max(0, query.offset - pageSize) }));
$("next").addEventListener("click", () => change({ offset: query.offset + pageSize }));
$("rows").addEventListener("click", (e) => {
  const toggle = e.target.closest(".toggle");
  if (toggle) change({ service: query.service === toggle.dataset.name ? "" : toggle.dataset.name });
});

function pause() {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  setText($("pause"), paused ? "Resume" : "Pause");
  if (paused) clearTimeout(timer);
  else ask();
}
$("pause").addEventListener("click", pause);

function move(step) {
  const toggles = [...document.querySelectorAll(".toggle")];
  const at = toggles.indexOf(document.activeElement);
  const next = toggles[at < 0 ? 0 : Math.min(Math.max(at + step, 0), toggles.length - 1)];
  if (next) next.focus();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (e.target.matches("input, select")) {
    if (e.key === "Escape" && e.target === $("search")) {
      $("search").value = "";
      $("search").blur();
      change({ search: "", offset: 0 });
    }
    return;
  }
  const onRow = e.target.matches(".toggle");
  if (e.key === "/") $("search").focus();
  else if (e.key === "j" || (e.key === "ArrowDown" && onRow)) move(1);
  else if (e.key === "k" || (e.key === "ArrowUp" && onRow)) move(-1);
  else if (e.key === "p") pause();
  else if (e.key === "Escape" && query.service) change({ service: "" });
  else return;
  e.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) ask();
});

ask();
