// What must be refused, beside a message that must be accepted.
import { check, checkEqual } from '../lib/harness.mjs';
import { leftovers, receive } from '../lib/clients.mjs';

const MIB_4 = 4 * 1024 * 1024;

/** The client compares with the types in the route, so the refusal proves that the route lists the right ones. */
export async function typeMismatch(clients) {
  const topic = clients.named('type-mismatch-normal');
  const consumer = await clients.simpleConsumer({ topic });
  const producer = await clients.producer({ topics: [topic] });
  const wrong = { topic, tag: clients.tag, messageGroup: 'g', body: Buffer.from('fifo') };
  await refused(producer.send(wrong), /type not match|40014/);
  await producer.send({ topic, tag: clients.tag, body: Buffer.from('normal') });
  const arrivals = await receive(consumer, 1);
  checkEqual(arrivals.map(({ message }) => message.body.toString()), ['normal'], 'bodies');
  checkEqual(await leftovers(consumer), [], 'bodies after the normal one');
  return 'refused by the client from the route';
}

/** Only the send: a delivered 4 MiB body exceeds this client's 4 MiB limit for one frame. */
export async function body4MiB(clients) {
  const { topic } = clients;
  const producer = await clients.producer();
  const receipt = await producer.send({ topic, tag: clients.tag, body: Buffer.alloc(MIB_4, 'x') });
  check(receipt.messageId, 'no message id');
  const tooLarge = producer.send({ topic, tag: clients.tag, body: Buffer.alloc(MIB_4 + 1, 'x') });
  await refused(tooLarge, /exceeds the threshold, max size=4194304|41301/);
  return 'send only: this client decodes at most 4 MiB per frame';
}

export async function unknownTopic(clients) {
  const producer = await clients.producer({ topics: [] });
  const sending = producer.send({ topic: clients.named('no-such-topic'), body: Buffer.from('lost') });
  await refused(sending, /40402/);
}

async function refused(sending, expected) {
  const error = await sending.then(() => null, (reason) => reason);
  check(error, 'accepted');
  const text = `${error.code ?? ''} ${error.message}`;
  check(expected.test(text), `refused for another reason: ${text}`);
}
