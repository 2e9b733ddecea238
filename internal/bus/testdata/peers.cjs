// npm's zeromq on both sides of the bus: the arguments are the address of the
// PUB endpoint, that of the publisher "ci", and the folder that holds
// node_modules. It prints one JSON object with what it saw; the test judges.
"use strict";
const path = require("node:path");

const [events, publisher, folder] = process.argv.slice(2);
const zmq = require(path.join(folder, "node_modules", "zeromq"));

const open = [];
const connect = (socket, address) => {
  socket.connect(address);
  open.push(socket);
  return socket;
};

// Publishes until the event has come back around: both sides have joined.
async function reached(pub, sub, topic) {
  let there = false;
  const first = sub.receive().then((parts) => ((there = true), parts));
  for (let n = 0; !there && n < 4000; n++) {
    await pub.send([topic, JSON.stringify({ probe: n })]);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return first;
}

async function main() {
  const seen = {};
  const pub = connect(new zmq.Publisher({ linger: 0, sendHighWaterMark: 0 }), publisher);
  const sub = connect(new zmq.Subscriber({ linger: 0, receiveTimeout: 20000 }), events);
  sub.subscribe("ci.");
  const [topic, body] = await reached(pub, sub, "ci.probe");
  const envelope = JSON.parse(body);
  seen.topic = topic.toString();
  seen.envelope = [envelope.version, envelope.type, envelope.source, envelope.group, envelope.correlation];

  for (let n = 0; n < 300; n++) await pub.send(["ci.n", JSON.stringify({ n })]);
  const numbers = [];
  while (numbers.length < 300) {
    const [, event] = await sub.receive();
    const { n } = JSON.parse(event).payload;
    if (n !== undefined) numbers.push(n);
  }
  seen.ordered = numbers.every((n, i) => n === i);

  await pub.send(["ci.claim", JSON.stringify({ version: 2, payload: {} })]);
  await pub.send(["task.triggered", "{}"]);
  await pub.send(["ci.claim", JSON.stringify({ version: 1, source: "core", group: "other", payload: { n: 7 } })]);
  const claim = JSON.parse((await sub.receive())[1]);
  seen.claim = [claim.source, claim.group, claim.payload.n];

  sub.unsubscribe("ci.");
  sub.subscribe("ci.only");
  await reached(pub, sub, "ci.only");
  seen.only = true;
  console.log(JSON.stringify(seen));
  for (const socket of open) socket.close();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
