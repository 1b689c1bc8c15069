// Ask the search of the built site: node site_search.js WORKER INDEX < [question, ...]
//
// The worker is the site's own, which a browser runs. For each question, this prints the groups of
// results as the site shows them, each a list of locations, the best first.
const fs = require("fs");
const vm = require("vm");

const [SETUP, QUERY] = [0, 2];
const [worker, index] = process.argv.slice(2);
const listeners = [];
const waiting = [];
const scope = {
  console,
  addEventListener: (_, listener) => listeners.push(listener),
  postMessage: (answer) => waiting.shift()(answer.data),
};
scope.self = scope;
vm.runInNewContext(fs.readFileSync(worker, "utf8"), scope);

function ask(type, data) {
  return new Promise((resolve) => {
    waiting.push(resolve);
    listeners.forEach((listener) => listener({ data: { type, data } }));
  });
}

async function main() {
  const built = JSON.parse(fs.readFileSync(index, "utf8"));
  await ask(SETUP, { ...built, options: {} });
  const groups = [];
  for (const question of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const { items } = await ask(QUERY, question);
    groups.push(items.map((group) => group.map((one) => one.location)));
  }
  console.log(JSON.stringify(groups));
}

main();
