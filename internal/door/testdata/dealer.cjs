// A client of the door by npm's zeromq: the arguments are the socket's path and
// the folder that holds node_modules. It prints one JSON object with what it
// saw; the test judges.
"use strict";
const path = require("node:path");

const address = "ipc://" + process.argv[2];
const zmq = require(path.join(process.argv[3], "node_modules", "zeromq"));

const options = { linger: 0, receiveTimeout: 20000 };
const request = (correlation, args = {}, tool = "echo") =>
  JSON.stringify({ topic: "tool.invoke." + tool, correlation, arguments: args });
const connect = (socket) => {
  socket.connect(address);
  return socket;
};
const last = (parts) => JSON.parse(parts[parts.length - 1]);

async function main() {
  const seen = {};
  const dealer = connect(new zmq.Dealer(options));
  await dealer.send(["", request("delimited")]);
  seen.delimited = (await dealer.receive()).length;
  await dealer.send(request("alone"));
  seen.alone = (await dealer.receive()).length;
  const req = connect(new zmq.Request(options));
  await req.send(request("request"));
  seen.request = (await req.receive()).length;

  const sent = [];
  for (let i = 0; i < 64; i++) sent.push("many-" + i);
  for (const id of sent) await dealer.send(request(id));
  const back = new Set();
  for (let i = 0; i < 64; i++) back.add(last(await dealer.receive()).correlation);
  seen.many = sent.filter((id) => back.has(id)).length;

  await dealer.send("null");
  seen.null = last(await dealer.receive()).payload.error.code;
  const pieces = Array(10).fill("x".repeat(100 << 10));
  await dealer.send(request("big", { pieces }));
  seen.big = last(await dealer.receive()).payload.result.pieces.every((p, i) => p === pieces[i]);

  // Two clients that claim one routing id.
  const twins = [0, 1].map(() => connect(new zmq.Dealer({ ...options, routingId: "same" })));
  for (let n = 0; n < 20; n++)
    for (const [i, twin] of twins.entries()) await twin.send(request(`twin-${i}-${n}`, { i }));
  seen.twins = [];
  for (const [i, twin] of twins.entries()) {
    let own = 0;
    for (let n = 0; n < 20; n++) own += last(await twin.receive()).payload.result.i === i;
    seen.twins.push(own);
  }

  // A ROUTER cannot talk to a ROUTER here: its message has nowhere to go.
  const router = connect(new zmq.Router({ linger: 0, mandatory: true }));
  seen.router = await router.send(["s-1", request("router")]).then(() => false, () => true);

  const beating = connect(new zmq.Dealer({ ...options, heartbeatInterval: 20, heartbeatTimeout: 2000, heartbeatTimeToLive: 2000 }));
  await new Promise((resolve) => setTimeout(resolve, 300));
  await beating.send(request("beating"));
  seen.beating = last(await beating.receive()).correlation;

  await dealer.send(request("last"));
  seen.last = last(await dealer.receive()).correlation;
  console.log(JSON.stringify(seen));
  for (const socket of [dealer, req, router, beating, ...twins]) socket.close();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
