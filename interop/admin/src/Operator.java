import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A client of an operator, as mqadmin has it: the user, if there is one, stands in conf/tools.yml below rocketmq.home.dir. */
final class Operator {
    static DefaultMQAdminExt start(String nameServer) throws Exception {
        String home = System.getProperty("rocketmq.home.dir", "");
        DefaultMQAdminExt admin = new DefaultMQAdminExt(AclUtils.getAclRPCHook(home + "/conf/tools.yml"), 10_000);
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("interop");
        admin.start();
        return admin;
    }
}
