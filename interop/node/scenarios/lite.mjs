// Lite topics of one parent: a consumer gets those it has subscribed to, each in order, and one that is stuck alone.
import rocketmq from 'rocketmq-client-nodejs';

import { check, checkEqual, sleep } from '../lib/harness.mjs';

const { ConsumeResult } = rocketmq;

const labels = (name, from, to) => Array.from({ length: to - from }, (_, i) => `${name}${from + i}`);

export async function push(clients) {
  const [stuck, healthy, other] = ['stuck', 'healthy', 'other'].map((name) => `${name}-${clients.tag}`);
  const producer = await clients.producer();
  const send = async (liteTopic, bodies) => {
    for (const body of bodies) {
      await producer.send({ topic: clients.topic, liteTopic, body: Buffer.from(body) });
    }
  };
  // Before anybody has subscribed: a lite topic is often made by its first message.
  await send(other, labels('other', 0, 1));
  await send(healthy, labels('healthy', 0, 3));

  const done = [];
  let isStuck = false;
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  const consumer = await clients.litePushConsumer(async (message) => {
    const body = message.body.toString();
    if (body === 'stuck0') {
      // A failure would do, but this client (1.0.8) gives a message up after the first one when waits are listed.
      isStuck = true;
      await released;
    }
    done.push(`${body} of ${message.liteTopic}`);
    return ConsumeResult.SUCCESS;
  });
  const expect = async (expected) => {
    for (const deadline = Date.now() + 40_000; done.length < expected.length && Date.now() < deadline;) await sleep(50);
    checkEqual(done, expected, 'received');
  };
  const inLite = (lite, bodies) => bodies.map((body) => `${body} of ${lite}`);
  await consumer.subscribeLite(healthy);
  await consumer.subscribeLite(stuck);
  await expect(inLite(healthy, labels('healthy', 0, 3)));

  await send(stuck, labels('stuck', 0, 3));
  for (const deadline = Date.now() + 30_000; !isStuck && Date.now() < deadline;) await sleep(50);
  check(isStuck, 'the first message did not come');
  await send(other, labels('other', 1, 2));
  await send(healthy, labels('healthy', 3, 8));
  await expect(inLite(healthy, labels('healthy', 0, 8)));
  release();
  const all = [...inLite(healthy, labels('healthy', 0, 8)), ...inLite(stuck, labels('stuck', 0, 3))];
  await expect(all);

  await consumer.unsubscribeLite(healthy);
  await send(healthy, labels('healthy', 8, 9));
  await send(stuck, labels('stuck', 3, 4));
  all.push(...inLite(stuck, labels('stuck', 3, 4)));
  await expect(all);
  await sleep(3_000);
  await expect(all);
}
