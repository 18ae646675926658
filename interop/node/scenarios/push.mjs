// A listener that always fails: retries counted exactly, then the dead-letter topic.
import rocketmq from 'rocketmq-client-nodejs';

import { check, checkEqual, sleep } from '../lib/harness.mjs';
import { receive } from '../lib/clients.mjs';

/** The group is created with retryMaxTimes 2: one delivery and two retries. */
const ATTEMPTS = [1, 2, 3];
/** Longer than any retry step, so a fourth attempt would have come. */
const QUIET_MS = 6_000;

export async function retryDlq(clients) {
  const { topic } = clients;
  const attempts = new Map();
  await clients.pushConsumer(async (message) => {
    const id = message.messageId;
    attempts.set(id, [...(attempts.get(id) ?? []), message.deliveryAttempt]);
    return rocketmq.ConsumeResult.FAILURE;
  });
  await sleep(3_000); // the first assignment scan comes after one second, then the first receive
  const producer = await clients.producer();
  const send = (body) =>
    producer.send({ topic, tag: clients.tag, keys: ['dead'], properties: new Map([['color', 'red']]), body: Buffer.from(body) });

  // The dead-letter topic may only exist after the first dead letter, and its reader, being a new group, may start
  // behind that one: hence a first message that opens the topic and a second that is looked for.
  const opener = await send('opener');
  await exhausted(attempts, opener.messageId);
  const reader = await deadLetterReader(clients, `%DLQ%${clients.group}`);
  const receipt = await send('dead letter');
  await exhausted(attempts, receipt.messageId);

  const arrivals = await receive(reader, 2, { within: 40_000 });
  const letter = arrivals.map(({ message }) => message).find(({ body }) => body.toString() === 'dead letter');
  check(letter, `not in the dead-letter topic, found ${arrivals.length} others`);
  checkEqual(letter.messageId, receipt.messageId, 'message id of the dead letter');
  checkEqual(letter.tag, clients.tag, 'tag of the dead letter');
  checkEqual(letter.properties.get('color'), 'red', 'property of the dead letter');
  await sleep(QUIET_MS);
  checkEqual(attempts.get(opener.messageId), ATTEMPTS, 'attempts of the first message');
  checkEqual(attempts.get(receipt.messageId), ATTEMPTS, 'attempts of the second message');
}

async function exhausted(attempts, id) {
  const deadline = Date.now() + 80_000;
  while ((attempts.get(id) ?? []).length < ATTEMPTS.length) {
    check(Date.now() < deadline, `attempts so far: ${JSON.stringify(attempts.get(id) ?? [])}`);
    await sleep(100);
  }
}

async function deadLetterReader(clients, topic) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    try {
      return await clients.simpleConsumer({ group: clients.named('push-retry-dlq-reader'), topic });
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(1_000);
    }
  }
}
