import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Creates every topic and group of topics.txt: Admin NAMESRV BROKER FILE LANG... */
public final class Admin {
    public static void main(String[] arguments) throws Exception {
        List<String> languages = List.of(arguments).subList(3, arguments.length);
        DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000);
        admin.setNamesrvAddr(arguments[0]);
        admin.setInstanceName("interop");
        admin.start();
        try {
            for (String line : Files.readAllLines(Path.of(arguments[2]))) {
                if (!line.isBlank() && !line.startsWith("#")) {
                    create(admin, arguments[1], line, languages);
                }
            }
        } finally {
            admin.shutdown();
        }
    }

    private static void create(DefaultMQAdminExt admin, String broker, String line, List<String> languages)
            throws Exception {
        for (String language : line.contains("{lang}") ? languages : List.of("")) {
            Entry entry = Entry.parse(line.replace("{lang}", language));
            // By the broker's address, not the cluster's name: the server needs no more than requests 17 and 200.
            switch (entry.kind()) {
                case "topic" -> admin.createAndUpdateTopicConfig(broker, entry.topic());
                case "group" -> admin.createAndUpdateSubscriptionGroupConfig(broker, entry.group());
                default -> throw new IllegalArgumentException("neither topic nor group: " + line);
            }
        }
    }
}
