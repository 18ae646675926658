// One group, several consumers; and one group across a restart of the server.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { check, checkEqual, sleep } from '../lib/harness.mjs';
import { receive } from '../lib/clients.mjs';

const CONSUMERS = 3;
const MESSAGES = 30;

/** Consumers outnumber the queues; each message still goes to exactly one of them. */
export async function shareQueue(clients) {
  const { topic } = clients;
  const consumers = await Promise.all(Array.from({ length: CONSUMERS }, () => clients.simpleConsumer()));
  const producer = await clients.producer();
  const ids = [];
  for (let i = 0; i < MESSAGES; i += 1) {
    ids.push((await producer.send({ topic, tag: clients.tag, body: Buffer.from(String(i)) })).messageId);
  }

  const got = [];
  const shares = consumers.map(() => 0);
  const deadline = Date.now() + 20_000;
  await Promise.all(consumers.map(async (consumer, index) => {
    while (got.length < MESSAGES && Date.now() < deadline) {
      for (const { message } of await receive(consumer, 1, { within: 1, batch: 2 })) {
        got.push(message.messageId);
        shares[index] += 1;
      }
    }
  }));
  checkEqual([...got].sort(), [...ids].sort(), 'ids of all consumers together');
  check(shares.filter((n) => n > 0).length > 1, `one consumer got everything: ${shares}`);
  return `shares ${shares.join('/')}`;
}

/** The same clients go on after a restart: nothing acknowledged comes again, nothing waiting is lost. */
export async function resumeAfterRestart(clients) {
  const control = process.env.INTEROP_CONTROL;
  if (!control) throw new Error('INTEROP_CONTROL is not set');
  const { topic } = clients;
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer();
  const send = (body) => producer.send({ topic, tag: clients.tag, body: Buffer.from(body) });
  const done = ['done-1', 'done-2', 'done-3'];
  const waiting = ['waiting-1', 'waiting-2', 'waiting-3'];
  for (const body of done) await send(body);
  const before = await receive(consumer, done.length);
  checkEqual(bodies(before), done, 'bodies before the restart');
  for (const body of waiting) await send(body);

  await promisify(execFile)(control, ['restart']);
  const back = Date.now();
  await persist(() => send('after'), 30_000);
  const after = await persist(async () => {
    const arrivals = await receive(consumer, waiting.length + 1, { within: 15_000 });
    check(arrivals.length > 0, 'nothing arrives after the restart');
    return arrivals;
  }, 60_000);
  checkEqual(bodies(after), ['after', ...waiting], 'bodies after the restart');
  return `same clients served again ${((after[0].at - back) / 1000).toFixed(1)} s after the restart`;
}

const bodies = (arrivals) => arrivals.map(({ message }) => message.body.toString()).sort();

/** Clients need a moment to connect again; an error only counts when it lasts. */
async function persist(action, within) {
  const deadline = Date.now() + within;
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(500);
    }
  }
}
