// The names a process's script can use: `engine` and `token`, following the manual's API, and ways to print.
// Nothing here reaches outside: the script's effects are collected in order, and read when it has ended.
globalThis.__narval = (function (given) {
  "use strict";
  const effects = [], printed = [];
  let completed = false, line = "", room = given.room;
  const MOST = given.most;

  function say(text) {
    room -= text.length + 1;
    if (room < 0) { throw new Error("the script prints too much"); }
    line += text;
  }
  function end() { printed.push(line); line = ""; }
  const out = {
    print: function (value) { say(String(value)); },
    println: function (value) { say(arguments.length ? String(value) : ""); end(); },
  };

  function wish(effect) {
    if (!given.writable) { throw new Error("a token can only be looked at here"); }
    if (effects.length >= MOST) { throw new Error("the script has too many effects"); }
    effects.push(effect);
  }
  function text(value) {
    if (value === null || value === undefined) { return null; }
    if (value instanceof Date) { return String(value.getTime()); }
    if (typeof value === "object" && !(value instanceof Boolean || value instanceof Number
        || value instanceof String)) {
      throw new Error("an attribute is a text, a number, a boolean or a Date");
    }
    return String(value);
  }
  const WHOLE = { byte: 8, short: 16, int: 32, integer: 32, long: 64 };
  function typed(value, type) {
    if (type === null || type === undefined) { return value; }
    const word = String(type).split(".").pop().toLowerCase();
    if (word === "string" || word === "object") { return value; }
    if (word === "boolean") { return value.trim().toLowerCase() === "true"; }
    if (word === "date") { return new Date(Number(value)); }
    if (word === "character" || word === "char") { return value.length ? value[0] : " "; }
    if (word in WHOLE || word === "float" || word === "double") {
      const number = Number(value);
      if (!value.trim() || Number.isNaN(number) || (word in WHOLE && !Number.isInteger(number))) {
        throw new Error("expected a number of type " + word + ", found " + value);
      }
      return number;
    }
    throw new Error("no converter for the type " + type);
  }

  function environment(layers, where) {
    const passing = {};
    function find(name) {
      for (const layer of layers) {
        if (Object.prototype.hasOwnProperty.call(layer, name)) { return layer[name]; }
      }
      return null;
    }
    return {
      getAttribute: function (name, type, otherwise) {
        const found = find(String(name));
        if (found === null) { return otherwise === undefined ? null : otherwise; }
        return typed(found, type);
      },
      hasAttribute: function (name) { return find(String(name)) !== null; },
      getAttributeNames: function () {
        const names = new Set();
        for (const layer of layers) { for (const name of Object.keys(layer)) { names.add(name); } }
        return list(Array.from(names));
      },
      setAttribute: function (name, value) {
        if (where === null) { throw new Error("this environment is only read"); }
        const written = text(value);
        wish(Object.assign({ do: "set", name: String(name), value: written }, where));
        if (written === null) { delete layers[0][name]; } else { layers[0][String(name)] = written; }
      },
      removeAttribute: function (name) { this.setAttribute(name, null); },
      getTransientAttribute: function (name) { return name in passing ? passing[name] : null; },
      setTransientAttribute: function (name, value) { passing[name] = value; },
      hasTransientAttribute: function (name) { return name in passing; },
      removeTransientAttribute: function (name) { delete passing[name]; },
    };
  }

  function list(items) {
    items.get = function (at) {
      if (!(at in items)) { throw new Error("there is no item " + at + " of " + items.length); }
      return items[at];
    };
    items.size = function () { return items.length; };
    items.isEmpty = function () { return items.length === 0; };
    return items;
  }
  // each name is a property, and also a getter as in the manual
  function bean(properties) {
    const made = {};
    for (const name of Object.keys(properties)) {
      const read = properties[name];
      Object.defineProperty(made, name, { get: read, enumerable: true });
      const capital = name[0].toUpperCase() + name.slice(1);
      Object.defineProperty(made, "get" + capital, { value: read });
      Object.defineProperty(made, "is" + capital, { value: read });
    }
    return made;
  }
  function constant(value) { return function () { return value; }; }

  function nodeOf(said) {
    const graph = bean({ name: constant(given.token.process.name) });
    const node = bean({
      name: constant(said.name), type: constant(said.type || null), graph: constant(graph),
      external: constant(!!said.external), guard: constant(said.guard || null),
      externalEnv: constant(environment([said.external_environment || {}], null)),
    });
    Object.defineProperty(node, "toString", { value: function () { return said.name; } });
    return node;
  }

  const shared = given.token.process.environment || {};
  const known = new Map();
  function tokenOf(id) {
    if (known.has(id)) { return known.get(id); }
    const said = given.tokens[String(id)];
    if (!said) { throw new Error("token " + id + " is too far back to be shown here"); }
    const own = id === given.token.id, node = nodeOf(said.node);
    const env = environment([said.environment || {}], own ? { of: "token" } : null);
    const full = environment([said.environment || {}, shared],
      own ? { of: "token" } : null);
    const sets = {};
    for (const each of said.sets || []) {
      const set = bean({
        name: constant(each.name), maxMemberIndex: constant(each.max_index), level: constant(each.level),
        env: constant(environment([each.environment || {}], own ? { of: "set", set: each.name } : null)),
      });
      sets[each.name] = bean({
        tokenSet: constant(set), memberIndex: constant(each.index),
        env: constant(environment([each.member || {}], own ? { of: "member", set: each.name } : null)),
      });
    }
    const token = bean({
      id: constant(id), node: constant(node), process: constant(process), env: constant(env),
      fullEnv: constant(full),
      complete: function () { return !!said.complete || (own && completed); },
      guardAction: constant(said.guard_action || null),
      executionType: constant(said.execution_type || "Forward"),
      parentTokens: function () {
        return list((said.parents || []).map(function (parent) {
          return bean({ parentToken: function () { return tokenOf(parent); } });
        }));
      },
      tokenSetMemberships: constant(list(Object.values(sets))),
    });
    Object.defineProperties(token, {
      getTokenSet: { value: function (name) { return name in sets ? sets[name].tokenSet : null; } },
      getTokenSetMember: { value: function (name) { return name in sets ? sets[name] : null; } },
      toString: { value: function () { return "[token " + id + " on " + said.node.name + "]"; } },
    });
    known.set(id, token);
    return token;
  }
  const process = bean({
    name: constant(given.token.process.name), id: constant(given.token.process.run),
    state: constant(given.token.process.state),
    env: constant(environment([shared], { of: "process" })),
  });

  function own(token) {
    if (!token || token.id !== given.token.id) { throw new Error("a script completes its own token alone"); }
    if (completed || given.token.complete) { throw new Error("the token is completed already"); }
    completed = true;
  }
  function complete(token, arcs, asynchronous) {
    own(token);
    wish({ do: "complete", arcs: arcs.map(function (arc) { return arc === null || arc === undefined
      ? "" : String(arc); }), asynchronous: asynchronous });
  }
  function plain(given) {
    const found = {};
    if (given && given.getAttributeNames) {
      for (const name of given.getAttributeNames()) { found[name] = given.getAttribute(name); }
    } else if (given) {
      for (const name of Object.keys(given)) { found[name] = text(given[name]); }
    }
    return found;
  }
  const engine = {
    complete: function (token, arc) { complete(token, [arc], false); },
    completeExecution: function (token, arc) { complete(token, [arc], false); },
    completeMany: function (token) { complete(token, Array.prototype.slice.call(arguments, 1).flat(), false); },
    completeAsynchronous: function (token, arc) { complete(token, [arc], true); },
    completeManyAsynchronous: function (token) {
      complete(token, Array.prototype.slice.call(arguments, 1).flat(), true);
    },
    completeWithNewTokenSet: function (token, arc, name, count, asynchronous, env, members) {
      own(token);
      const given = {};
      for (const key of Object.keys(members || {})) { given[key] = Array.from(members[key], text); }
      wish({
        do: "complete-with-new-token-set", name: String(name), count: Number(count),
        arcs: [arc === null || arc === undefined ? "" : String(arc)], asynchronous: !!asynchronous,
        environment: plain(env), members: given,
      });
    },
    backtrack: function (token) { wish({ do: "backtrack", token: token.id }); },
    executeQueuedArcTokens: function () {},
  };

  Boolean.prototype.booleanValue = function () { return this.valueOf(); };
  for (const name of ["intValue", "longValue", "doubleValue"]) {
    Number.prototype[name] = function () { return this.valueOf(); };
  }
  const system = { out: out, err: out };
  const lang = { System: system, Boolean: { TRUE: true, FALSE: false } };
  for (const name of ["String", "Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Character"]) {
    const type = Object.assign(lang[name] || {}, { toString: constant("java.lang." + name) });
    lang[name] = type;
  }
  lang.Class = { forName: function (name) { return String(name); } };
  globalThis.java = { lang: lang, util: { Date: Date } };
  globalThis.System = system;
  globalThis.println = out.println;
  globalThis.print = out.println;
  globalThis.console = { log: function () { out.println(Array.from(arguments, String).join(" ")); } };
  globalThis.engine = engine;
  globalThis.token = tokenOf(given.token.id);
  return {
    result: function () {
      if (line) { end(); }
      return JSON.stringify({ effects: effects, printed: printed });
    },
  };
});
