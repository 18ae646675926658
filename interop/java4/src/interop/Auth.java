package interop;

import static interop.Scenario.check;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageQueue;

/** A server that asks for credentials: what the users of lib/auth.py may do, and what they are refused. */
final class Auth {
    private static final String APP = "auth-app";
    private static final int NO_PERMISSION = 16;

    interface Call {
        void run() throws Exception;
    }

    /** What the user may do: all of it, by the push consumer that most programs have. */
    static String exchange(Lab lab) throws Exception {
        lab.actAs(APP);
        Inbox inbox = lab.listen();
        send(lab, lab.topic());
        inbox.exactly(List.of("signed"), 30);
        return "";
    }

    static String wrongKey(Lab lab) {
        lab.actAs("auth-guessed", "not-its-secret");
        return refused(() -> send(lab, lab.topic()));
    }

    static String disabledUser(Lab lab) {
        lab.actAs("auth-disabled");
        return refused(() -> send(lab, lab.topic()));
    }

    static String noTopicRight(Lab lab) {
        lab.actAs(APP);
        return refused(() -> send(lab, lab.topic()));
    }

    /** A push consumer keeps refusals to itself, so this one pulls; with a group of its own that it has a right on, it may. */
    static String noGroupRight(Lab lab) throws Exception {
        lab.actAs(APP);
        SendResult sent = send(lab, lab.topic());
        PullResult allowed = pull(lab, Lab.NAME + "-auth-right-key", sent);
        check(allowed.getPullStatus() == PullStatus.FOUND, "with a right on the group: %s", allowed);
        return refused(() -> pull(lab, lab.group(), sent));
    }

    /** A prefix allows both topics; the rule for the name of one of them denies. */
    static String deny(Lab lab) throws Exception {
        lab.actAs(APP);
        send(lab, lab.topic());
        return refused(() -> send(lab, lab.topic() + "-exact"));
    }

    static String source(Lab lab) throws Exception {
        exchange(lab);
        return refused(() -> send(lab, lab.topic() + "-far"));
    }

    private static SendResult send(Lab lab, String topic) throws Exception {
        lab.step("sending to " + topic);
        DefaultMQProducer producer = lab.producer();
        // As the producer will, which keeps the code of a refused route to itself.
        lab.admin().examineTopicRouteInfo(topic);
        return Lab.ok(producer.send(Lab.message(topic, "signed")));
    }

    private static PullResult pull(Lab lab, String group, SendResult sent) throws Exception {
        lab.step("pulling as " + group);
        DefaultMQPullConsumer consumer = lab.connect(new DefaultMQPullConsumer(group, lab.hook()));
        consumer.start();
        lab.keep(consumer::shutdown);
        MessageQueue queue = sent.getMessageQueue();
        return consumer.pull(queue, "*", sent.getQueueOffset(), 1);
    }

    /** Does what must be refused, and returns how it was. */
    private static String refused(Call call) {
        try {
            call.run();
        } catch (Exception refusal) {
            for (Throwable cause = refusal; cause != null; cause = cause.getCause()) {
                if (code(cause) == NO_PERMISSION) {
                    return cause.getMessage();
                }
            }
            throw new Scenario.Broken("refused for another reason: " + refusal);
        }
        throw new Scenario.Broken("accepted");
    }

    /** Of the server's answer: the broker's, or the name service's. */
    private static int code(Throwable problem) {
        if (problem instanceof MQBrokerException answer) {
            return answer.getResponseCode();
        }
        return problem instanceof MQClientException answer ? answer.getResponseCode() : -1;
    }
}
