from rocketmq import ClientConfiguration, Credentials, Message, Producer, SimpleConsumer

server = ClientConfiguration("127.0.0.1:8081", Credentials("", ""))

producer = Producer(server, ("orders",))
producer.startup()
message = Message()
message.topic, message.body, message.tag = "orders", b"hello from Python", "greeting"
print("sent", producer.send(message).message_id)

consumer = SimpleConsumer(server, "shop")
consumer.startup()
consumer.subscribe("orders")
for received in consumer.receive(32, 15):
    print("received", received.body.decode())
    consumer.ack(received)

producer.shutdown()
consumer.shutdown()
