import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.subscription.CustomizedRetryPolicy;
import org.apache.rocketmq.remoting.protocol.subscription.GroupRetryPolicy;
import org.apache.rocketmq.remoting.protocol.subscription.GroupRetryPolicyType;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** One line of topics.txt. */
record Entry(String kind, String name, Map<String, String> settings) {
    static Entry parse(String line) {
        String[] words = line.trim().split("\\s+");
        Map<String, String> settings = new HashMap<>();
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            String[] pair = word.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        return new Entry(words[0], words[1], settings);
    }

    /** Those of the brokers that get it. A topic with one queue has one on all brokers together. */
    List<String> brokersOf(List<String> all) {
        String wanted = settings.getOrDefault("brokers", "");
        boolean one = wanted.equals("1") || wanted.startsWith("1:")
            && Arrays.stream(wanted.substring(2).split(",")).anyMatch(language -> name.startsWith(language + "-"));
        return kind.equals("topic") && (one || queues() == 1) ? List.of(all.get(Math.floorMod(name.hashCode(), all.size()))) : all;
    }

    private int queues() {
        return Integer.parseInt(settings.getOrDefault("queues", "4"));
    }

    TopicConfig topic() {
        int queues = queues();
        TopicConfig config = new TopicConfig(name, queues, queues);
        String type = settings.getOrDefault("type", "NORMAL");
        if (!type.equals("NONE")) {
            config.getAttributes().put("+message.type", type);
        }
        if (settings.containsKey("expiration")) {
            config.getAttributes().put("+lite.topic.expiration", settings.get("expiration"));
        }
        return config;
    }

    SubscriptionGroupConfig group() {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(name);
        config.setConsumeMessageOrderly(Boolean.parseBoolean(settings.get("order")));
        config.setRetryMaxTimes(Integer.parseInt(settings.getOrDefault("retries", "16")));
        if (settings.containsKey("bind")) {
            config.getAttributes().put("+lite.bind.topic", settings.get("bind"));
        }
        if (settings.containsKey("steps")) {
            long[] steps = Arrays.stream(settings.get("steps").split(",")).mapToLong(Long::parseLong).toArray();
            GroupRetryPolicy policy = new GroupRetryPolicy();
            policy.setType(GroupRetryPolicyType.CUSTOMIZED);
            policy.setCustomizedRetryPolicy(new CustomizedRetryPolicy(steps));
            config.setGroupRetryPolicy(policy);
        }
        return config;
    }
}
