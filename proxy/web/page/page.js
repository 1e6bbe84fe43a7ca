// The status page. It asks for status.json every two seconds and shows it. Text from there is inserted as
// text, never as markup.

import { element, setText, count, bits, span, chart, share, icon } from "./draw.js";
import { stateLooks, endpointLooks, eventLooks, healthLooks, causeLooks, modeLooks, sourceNames } from "./lists.js"; // web/lists.go makes it

const period = 2000; // ms between two requests
const hiddenPeriod = 15000; // in a tab that is not shown: its title and icon still tell
const patience = 20000; // ms for an answer: a node without power refuses nothing, and a browser waits for minutes
const samples = 60; // points of a chart: ten minutes of the daemon's past, or two of an endpoint's traffic as this page saw it
const pageSize = 50;
const keptEvents = 100;

const $ = (id) => document.getElementById(id);
const query = { search: "", show: "", sort: "", offset: 0, service: "" };
const series = new Map(); // rates of services and of endpoints by name; "" is the sum of all
let events = []; // newest first
let last = null; // the last answer
let heard = 0; // when it came, by this machine's clock
let paused = false;
let timer = 0;

// ago compares two times of the server's clock.
function ago(time) {
  if (!time) return "never";
  const seconds = (Date.parse(last.time) - Date.parse(time)) / 1000;
  return seconds < 1 ? "just now" : span(seconds) + " ago";
}

// sameName reports whether two names can be of one service: NAME is default/NAME.
const sameName = (a, b) => a.replace(/^default\//, "") === b.replace(/^default\//, "");

// rates records the counters of one service and returns its rates per second; a rate is null if not known yet. In
// mode iptables nothing counts, and traffic and active are undefined; in mode nftables traffic has connections alone.
function rates(name, time, traffic, active) {
  let h = series.get(name);
  if (!h) series.set(name, (h = { time: 0, traffic: null, points: [], now: {} }));
  if (time < h.time) h.time = 0, h.traffic = null; // the clock was set back
  if (time - h.time < period * 0.7) return h; // an extra request after a click adds no point
  const seconds = (time - h.time) / 1000;
  const rate = (counter) => {
    const more = h.traffic && traffic ? traffic[counter] - h.traffic[counter] : -1;
    return !(more >= 0) || seconds <= 0 || seconds > 60 ? null : more / seconds; // the counter restarted, or there was no answer for a minute
  };
  h.now = { conns: rate("connections"), in: rate("inBytes"), out: rate("outBytes"), active };
  h.points.push(h.now);
  if (h.points.length > samples) h.points.shift();
  h.time = time;
  h.traffic = traffic;
  return h;
}

// verdict shows what is known of the node in the badge, the title and the favicon.
function verdict(text, look) {
  setText($("health"), text);
  $("health").className = "badge " + look;
  const node = last ? last.daemon.node : location.hostname;
  const title = look === "good" ? `${node} · svcproxy` : `${look === "bad" ? "✖ " : ""}${text} · ${node}`;
  if (document.title !== title) document.title = title;
  if ($("icon").dataset.look !== look) {
    $("icon").dataset.look = look;
    $("icon").href = icon(look);
  }
}

function showHead(s) {
  setText($("node"), s.daemon.node);
  const d = s.daemon;
  setText($("about"), `${d.mode}${d.modeReason ? " (" + d.modeReason + ")" : ""} · ${d.version}${d.iptables ? " · " + d.iptables : ""} · up ${span((Date.parse(s.time) - Date.parse(d.started)) / 1000)}`);
  const { code, wrong } = s.summary;
  if (code || wrong.length) verdict(wrong.slice(0, 3).join(" · ") + (wrong.length > 3 ? ` · and ${wrong.length - 3} more` : ""), "bad");
  else if (s.warnings.length) verdict(`healthy, ${s.warnings.length} warning${s.warnings.length > 1 ? "s" : ""}`, "warn");
  else verdict("healthy", "good");
}

function showTrouble(s) {
  const list = (title, lines) => (lines.length ? [element("h2", {}, title), element("ul", {}, ...lines.map((l) => element("li", {}, l)))] : []);
  const faults = s.faults.map((f) => `${f.op}: ${f.error} (tried ${f.count} times, since ${ago(f.since)})`);
  const named = [...s.summary.withoutBackends, ...s.problems, ...s.down.map((l) => "down: " + l)];
  const wrong = named.length ? named : s.summary.wrong;
  const all = [
    ...list("What is wrong", wrong), ...list("Refused by the kernel", faults),
    ...list("Warnings", s.warnings), ...list("Needs a restart", s.daemon.config.restart || []),
  ];
  $("trouble").hidden = all.length === 0;
  $("trouble").className = wrong.length ? "" : "mild";
  $("trouble").replaceChildren(...all);
}

function showTiles(s) {
  const now = rates("", Date.parse(s.time), s.totals.traffic, s.totals.active).now;
  const t = s.totals;
  const past = s.past || {};
  const newest = (list, now) => now ?? ((list || []).at(-1) >= 0 ? list.at(-1) : null); // until this page has two answers of its own
  const tile = (value, text, points) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, text), s.past && points ? chart(points, samples, `${text} in the last ten minutes, now ${value}`) : "");
  const h = s.health;
  const checks = h && h.targets ? `${count((h.states.up || 0) + (h.states.failing || 0))} of ${count(h.targets)} targets up` : "";
  const also = [`${count(t.virtuals)} addresses`, `${count(t.reals)} ${s.uncounted ? "backends" : "real servers"}`, t.draining ? `${t.draining} draining` : "",
    t.withoutBackends ? `${t.withoutBackends} without backends` : "", t.leftOut ? `${t.leftOut} left out` : "", checks,
    s.conntrack && s.conntrack.max ? `${count(s.conntrack.count)} of ${count(s.conntrack.max)} connections tracked` : ""];
  $("tiles").replaceChildren(
    tile(count(newest(past.connections, now.conns)), "connections/s", past.connections),
    tile(bits(newest(past.inBytes, now.in)), "in", past.inBytes),
    tile(bits(newest(past.outBytes, now.out)), "out", past.outBytes),
    tile(count(t.active), "active connections"),
    element("div", { class: "tile" }, element("b", {}, count(t.services)), element("span", {}, "services"), element("p", {}, also.filter(Boolean).join(" · "))),
  );
}

const badge = (state, looks) => element("span", { class: "state " + (looks[state] || "") }, state);

const fullAddress = (v) => v.mark ? `fwmark ${v.mark}` : v.address + (v.protocol === "tcp" ? "" : "/" + v.protocol);

// serviceHealth says what is not usual in the health of a service's endpoints.
function serviceHealth(h) {
  if (!h) return [];
  const parts = [h.down ? [`${h.down} of ${h.checked} down`, "bad"] : null, h.held ? [`${h.held} held`, "warn"] : null, h.out ? [`${h.out} taken out`, "warn"] : null,
    ...h.groups.map((g) => [g.mode, modeLooks[g.mode] || ""])];
  return parts.filter(Boolean).flatMap(([text, look]) => [" ", element("span", { class: "state " + look }, text)]);
}

// backends draws and counts a service's endpoints: those that serve, drain, and do not, or serve in a panic though
// they are down.
function backends(s) {
  const b = s.backends;
  const down = s.state === "panic" ? Math.min(b.serving, s.health.down) : 0;
  const parts = [["good", b.serving - down], ["warn", b.draining], ["bad", b.unused + down]];
  return [share(parts, `${b.serving} serve, ${b.draining} drain, ${b.unused} do not serve`), `${b.serving}/${b.serving + b.unused}`, (b.draining ? ` +${b.draining}` : "") + (b.full ? ` (${b.full} full)` : "")];
}

// endpointHealth says why an endpoint has its weight.
function endpointHealth(h) {
  if (!h) return "–";
  const look = h.cause === "serves" ? (h.flapping ? "warn" : healthLooks[h.state]) : causeLooks[h.cause];
  const probe = h.last ? `${h.check || ""}: ${h.last.answer || (h.last.good ? "good" : "bad")}, in ${span(h.last.seconds)}` : h.check;
  return element("span", { class: "state wrap " + (look || ""), title: probe || null }, h.text);
}

const weight = (e) => (e.health && e.health.sourceWeight !== e.weight ? `${e.weight} (source ${e.health.sourceWeight})` : String(e.weight));

// lookOf is how a row looks.
function lookOf(s) {
  const look = stateLooks[s.state];
  if (look === "bad" || (s.health && s.health.down)) return "bad";
  return look === "warn" || s.backends.draining || s.backends.full || (s.health && (s.health.held || s.health.out || s.health.groups.length)) ? "warn" : "";
}

// Rows have explicit roles: on a narrow screen CSS lays them out as cards, and browsers then drop their table
// roles.
function serviceRow(s, time) {
  const past = (last.past && last.past.services[s.name]) || { connections: [], inBytes: null, outBytes: null };
  let now = rates(s.name, time, s.traffic, s.active).now;
  if (now.conns === null && past.connections.at(-1) >= 0) now = { conns: past.connections.at(-1), in: past.inBytes, out: past.outBytes };
  const open = isOpen(s);
  const toggle = element("a", { href: open ? "#" : link(s.name), class: "toggle", "aria-expanded": String(open), "data-name": s.name, title: s.name }, s.name);
  const first = s.virtuals.find((v) => v.kind !== "nodePort" && v.kind !== "clusterIP") || s.virtuals[0];
  const others = s.virtuals.length - 1;
  const look = lookOf(s);
  const cell = (text, label) => element("td", { role: "cell", class: "number", "data-label": label }, text);
  const reason = s.reason && s.state !== "not served" ? s.reason : "";
  return element("tr", { class: "service " + look, role: "row" },
    element("th", { scope: "row", role: "rowheader", class: "name" }, toggle, element("span", { class: "kind" }, " " + s.type)),
    element("td", { role: "cell", class: "address" }, first ? element("span", { class: "mono" }, fullAddress(first)) : "–", others > 0 ? element("span", { class: "reason" }, ` +${others}`) : ""),
    element("td", { role: "cell", class: "backends" }, ...backends(s)),
    cell(count(s.active), "active"),
    cell(count(now.conns), "conns/s"),
    element("td", { role: "cell", class: "chart" }, chart(past.connections, samples, `connections per second to ${s.name} in the last ten minutes, now ${count(now.conns)}`)),
    cell(bits(now.in), "in"),
    cell(bits(now.out), "out"),
    element("td", { role: "cell", class: "condition" + (look ? "" : " fine"), title: reason || null }, badge(s.state, stateLooks), ...serviceHealth(s.health),
      s.backends.draining ? [" ", element("span", { class: "state warn" }, `${s.backends.draining} draining`)] : "",
      reason ? element("span", { class: "reason" }, " " + reason) : ""));
}

function grid(caption, head, rows) {
  return element("table", { class: caption.split(" ")[0].toLowerCase() }, element("caption", {}, caption),
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
  if (s.reason) body.append(element("p", {}, s.reason));
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
    body.append(grid(caption, ["Endpoint", "Port", "Node", ">Weight", ">Active", ">Inactive", ">Connections", ">Conns/s", "", ">In", ">Out", "State", ...health],
      listed.map((e) => {
        const h = seen(e);
        return [e.address, e.port || "–", e.node || "–", weight(e), count(e.active), count(e.inactive), count(e.traffic && e.traffic.connections), count(h.now.conns),
          chart(h.points.map((p) => p.conns), samples, `connections per second to ${e.address}: ${count(h.now.conns)}`), bits(h.now.in), bits(h.now.out),
          element("span", {}, badge(e.state, endpointLooks), (e.full ? " full" : "") + (e.reason ? " " + e.reason : "") + timeLeft(e)), ...health.map(() => endpointHealth(e.health))];
      })));
  }
  return element("tr", { class: "detail", role: "row" }, element("td", { role: "cell", colspan: "9" }, body));
}

function showServices(s) {
  const time = Date.parse(s.time);
  const rows = [];
  const listed = s.services.slice();
  if (s.detail && !listed.some(isOpen)) listed.unshift(s.detail); // a link leads to a service on any page
  for (const service of listed) {
    rows.push(serviceRow(service, time));
    if (s.detail && isOpen(service)) rows.push(detailRow(s.detail));
  }
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.name : undefined;
  const scrolled = document.querySelector("tr.detail td > div") ? document.querySelector("tr.detail td > div").scrollLeft : 0;
  $("rows").replaceChildren(...rows);
  if (focused !== undefined) focusRow((b) => b.dataset.name === focused);
  if (scrolled) document.querySelector("tr.detail td > div").scrollLeft = scrolled;
  const from = s.matching ? s.offset + 1 : 0;
  const to = s.offset + s.services.length;
  setText($("matching"), s.matching === s.totals.services ? "" : `${s.matching} of ${s.totals.services}`);
  $("none").hidden = s.services.length > 0;
  setText($("none"), s.totals.services + s.totals.leftOut ? "No service matches." : "There are no services.");
  $("services").hidden = rows.length === 0;
  for (const th of document.querySelectorAll("th[data-sort]")) {
    const [column, back] = [query.sort.replace("-", ""), query.sort.startsWith("-")];
    const text = ["name", "address", "state"].includes(column); // numbers begin with the largest
    const order = th.dataset.sort !== column ? "none" : text !== back ? "ascending" : "descending";
    th.setAttribute("aria-sort", order);
    setText(th.firstElementChild, th.dataset.title + { none: "", ascending: " ▲", descending: " ▼" }[order]);
  }
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
    element("b", {}, d.service), " ", element("span", { class: "mono" }, d.address), " ",
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
    return element("li", {}, element("span", { class: "state " + look }, text), element("b", {}, sourceNames[source.name] || source.name), element("span", { class: "faint" }, ` since ${ago(source.since)}`),
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
  return ": " + e.services.slice(0, 3).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

// when is the time of an event, with the date if that is another day than the status.
function when(e) {
  const time = new Date(e.time);
  const day = time.toLocaleDateString() === new Date(last.time).toLocaleDateString() ? "" : time.toLocaleDateString(undefined, { weekday: "short", month: "short", day: "numeric" }) + " ";
  return element("time", { datetime: e.time, title: time.toLocaleString() }, day + time.toLocaleTimeString());
}

// changed lists what differs in the services of an event. Their names are there if there are several.
function changed(e) {
  const only = e.services && e.services.length === 1 && !e.moreServices;
  return (e.changes || []).map((line) => element("div", { class: "what" }, only ? line.slice(line.indexOf(": ") + 2) : line));
}

function eventItem(e) {
  const total = e.times ? (Date.parse(e.times.acknowledged) - Date.parse(e.times.seen || e.times.parsed)) / 1000 : null;
  return element("li", {}, when(e), " ",
    element("span", { class: "state " + (eventLooks[e.kind] || "") }, e.kind), e.text, named(e), e.by ? `, asked by ${e.by}` : "",
    e.ops ? element("span", { class: "faint" }, ` (+${e.ops.add} ~${e.ops.change} −${e.ops.remove}${e.ops.failed ? `, ${e.ops.failed} failed` : ""}${total === null ? "" : `, served in ${total ? span(total) : "less than 1 ms"}`})`) : "",
    ...changed(e));
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

// away says that there is no answer, louder than anything else. The last answer stays on the page, greyed out.
function away(reason) {
  $("away").hidden = !reason;
  document.querySelector("main").classList.toggle("stale", Boolean(reason));
  if (!reason) return;
  const known = last ? `What is below is from ${new Date(last.time).toLocaleString()}, ${span((Date.now() - heard) / 1000)} ago.` : "There is no status yet.";
  const mode = last ? last.daemon.mode : "";
  const serves = mode === "userspace" ? "Mode userspace serves nothing without it." : mode ? "If the node is up, its kernel goes on serving." : "";
  $("away").replaceChildren("svcproxy does not answer", element("small", {}, `${known} ${serves} (${reason})`));
  verdict("does not answer", "bad");
}

// tryShow shows an answer. A fault of this page is not named as one of svcproxy.
function tryShow(s) {
  away("");
  try {
    show(s);
  } catch (e) {
    console.error(e);
    $("away").hidden = false;
    $("away").replaceChildren("this page has a fault", element("small", {}, `svcproxy answers; svcproxy status shows all of it. (${e.message})`));
    verdict("fault of this page", "bad");
  }
}

let asking = null; // the AbortController of the request in progress

async function ask() {
  clearTimeout(timer);
  if (asking) asking.abort();
  const mine = (asking = new AbortController());
  const limit = setTimeout(() => mine.abort(new Error(`no answer in ${patience / 1000} s`)), patience);
  const q = new URLSearchParams({ limit: pageSize, after: events.length ? events[0].seq : 0 });
  for (const [name, value] of Object.entries(query)) if (value) q.set(name, value);
  let s = null;
  try {
    const answer = await fetch("status.json?" + q, { signal: mine.signal });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    s = await answer.json();
    if (mine !== asking) return; // a newer request was sent
    heard = Date.now();
  } catch (e) {
    if (mine !== asking || e.name === "AbortError") return;
    away(e.message);
  } finally {
    clearTimeout(limit);
  }
  if (s) tryShow(s);
  asking = null;
  clearTimeout(timer);
  if (!paused) timer = setTimeout(ask, document.hidden ? hiddenPeriod : period);
}

// link is the fragment that opens a service: "#service/web".
const link = (name) => "#service/" + encodeURI(name);

const isOpen = (s) => query.service !== "" && sameName(s.name, query.service);

// decoded is a part of an address as text; one that was cut off within a character stays as it is.
function decoded(part) {
  try {
    return decodeURI(part);
  } catch {
    return part;
  }
}

// The address of the page has what it shows, so that a link shows the same.
function readAddress() {
  const q = new URLSearchParams(location.search);
  for (const name of ["search", "show", "sort"]) query[name] = q.get(name) || "";
  query.offset = Number(q.get("offset")) || 0;
  query.service = location.hash.startsWith("#service/") ? decoded(location.hash.slice("#service/".length)) : "";
  for (const name of ["search", "show", "sort"]) if (document.activeElement !== $(name)) $(name).value = query[name];
}

function writeAddress() {
  const q = new URLSearchParams();
  for (const name of ["search", "show", "sort", "offset"]) if (query[name]) q.set(name, query[name]);
  const text = String(q);
  history.replaceState(null, "", location.pathname + (text ? "?" + text : "") + (query.service ? link(query.service) : ""));
}

function change(changes) {
  Object.assign(query, changes);
  writeAddress();
  $("sort").value = query.sort;
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
  if (!toggle || e.ctrlKey || e.metaKey || e.shiftKey) return; // a link: also in another tab
  e.preventDefault();
  change({ service: isOpen({ name: toggle.dataset.name }) ? "" : toggle.dataset.name });
});
for (const th of document.querySelectorAll("th[data-sort]")) {
  th.dataset.title = th.textContent;
  const button = element("button", { type: "button" }, th.textContent);
  th.replaceChildren(button);
  // A column's own order, the other way around, and the usual order again.
  button.addEventListener("click", () => change({ sort: { [th.dataset.sort]: "-" + th.dataset.sort, ["-" + th.dataset.sort]: "" }[query.sort] ?? th.dataset.sort, offset: 0 }));
}

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
window.addEventListener("hashchange", () => {
  readAddress();
  ask();
});

readAddress();
ask();
