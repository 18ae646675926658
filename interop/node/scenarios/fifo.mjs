// Order per message group, and what an unacknowledged message holds back.
import { check, checkEqual } from '../lib/harness.mjs';
import { SERVER } from '../lib/clients.mjs';

const PER_GROUP = 4;
const CALM = ['calm-1', 'calm-2', 'calm-3', 'calm-4'];
const POISON = 'poison';
const INVISIBLE_MS = 15_000;

/** Apache blocks the whole queue of an unacknowledged message; Redstart only its group, also inside one queue. */
export async function fifoOrder(clients) {
  if (SERVER === 'apache') return oneBlockedGroup(clients, 'fifo-order', 1);
  const notes = await Promise.all([
    oneBlockedGroup(clients, 'fifo-order', CALM.length),
    oneBlockedGroup(clients, 'fifo-same-queue', CALM.length),
  ]);
  return notes.join('; in one queue ');
}

async function oneBlockedGroup(clients, name, mustFinish) {
  const topic = clients.named(name);
  const consumer = await clients.simpleConsumer({ group: topic, topic });
  const producer = await clients.producer({ topics: [topic] });
  for (let i = 0; i < PER_GROUP; i += 1) {
    for (const messageGroup of [POISON, ...CALM]) {
      await producer.send({ topic, tag: clients.tag, messageGroup, body: Buffer.from(String(i)) });
    }
  }

  // The first poison message is taken and not acknowledged; everything else is.
  const seen = new Map([POISON, ...CALM].map((group) => [group, []]));
  let poisonedAt;
  let calmDone = 0;
  const deadline = Date.now() + 60_000;
  while (seen.get(POISON).length < PER_GROUP + 1 && Date.now() < deadline) {
    for (const message of await consumer.receive(1, INVISIBLE_MS)) {
      const log = seen.get(message.messageGroup);
      log.push(Number(message.body.toString()));
      if (message.messageGroup !== POISON) {
        if (log.length === PER_GROUP && seen.get(POISON).length <= 1) calmDone += 1;
      } else if (log.length === 1) {
        poisonedAt = Date.now();
        continue;
      } else if (log.length === 2) {
        check(Date.now() - poisonedAt >= INVISIBLE_MS - 500, 'poison moved on before its first message was due again');
        checkEqual(message.deliveryAttempt, 2, 'attempt of the poison message');
      }
      await consumer.ack(message);
    }
  }

  for (const group of CALM) checkEqual(seen.get(group), [0, 1, 2, 3], `order of ${group}`);
  checkEqual(seen.get(POISON), [0, 0, 1, 2, 3], 'order of poison');
  check(calmDone >= mustFinish, `only ${calmDone} healthy groups were served beside the failing one`);
  return `${calmDone} of ${CALM.length} healthy groups done while one was blocked`;
}
