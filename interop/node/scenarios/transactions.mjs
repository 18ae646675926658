// Half messages: invisible until decided, dropped on rollback, asked about when the producer stays silent.
import { check, checkEqual } from '../lib/harness.mjs';
import { leftovers, receive } from '../lib/clients.mjs';

/** TransactionResolution; the package does not export the enum. */
const UNKNOWN = 0;
const COMMIT = 1;
const ROLLBACK = 2;

export async function commit(clients) {
  const { consumer, producer, send } = await start(clients, UNKNOWN);
  const transaction = producer.beginTransaction();
  const receipt = await send('committed', transaction);
  check(receipt.transactionId, 'no transaction id');
  checkEqual(await leftovers(consumer), [], 'bodies before the commit');
  await transaction.commit();
  const arrivals = await receive(consumer, 1);
  checkEqual(arrivals.map(({ message }) => message.messageId), [receipt.messageId], 'ids after the commit');
}

export async function rollback(clients) {
  const { consumer, producer, send } = await start(clients, UNKNOWN);
  const dropped = producer.beginTransaction();
  await send('dropped', dropped);
  await dropped.rollback();
  const kept = producer.beginTransaction();
  await send('kept', kept);
  await kept.commit();
  const arrivals = await receive(consumer, 1);
  checkEqual(arrivals.map(({ message }) => message.body.toString()), ['kept'], 'bodies');
  checkEqual(await leftovers(consumer), [], 'bodies after the committed one');
}

export async function check_(clients) {
  const { consumer, producer, send, asked } = await start(clients, COMMIT);
  const sentAt = Date.now();
  const receipt = await send('undecided', producer.beginTransaction());
  const arrivals = await receive(consumer, 1, { within: 150_000 });
  checkEqual(arrivals.map(({ message }) => message.messageId), [receipt.messageId], 'ids after the check');
  check(asked.includes(receipt.messageId), 'visible although nobody was asked');
  return `visible after ${((arrivals[0].at - sentAt) / 1000).toFixed(1)} s, asked ${asked.length} times`;
}
export { check_ as check };

/** `answer` is for checks of this run's messages; those of broken earlier runs are rolled back, to be rid of them. */
async function start(clients, answer) {
  const { topic } = clients;
  const asked = [];
  const checker = {
    async check(message) {
      if (message.tag !== clients.tag) return ROLLBACK;
      asked.push(message.messageId);
      return answer;
    },
  };
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer({ checker });
  const send = (body, transaction) => producer.send({ topic, tag: clients.tag, body: Buffer.from(body) }, transaction);
  return { consumer, producer, send, asked };
}
