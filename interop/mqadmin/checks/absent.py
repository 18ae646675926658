"""Commands for parts of Apache that Redstart does not have. Redstart must say so, at once; what Apache says is noted."""

import time

from shell import brief, check, reason

from .registry import command

QUICK_SECONDS = 8.0


def refused(name, *words):
    @command(name)
    def run(world):
        values = {"BROKER": world.broker, "CLUSTER": world.cluster, "NAME": world.broker_name, "NAMESRV": world.namesrv,
                  "TOPIC": world.topic(), "FOLDER": world.folder}
        started = time.monotonic()
        output, ended = world.shell.call([name, *(values.get(word, word) for word in words), "-n", world.namesrv],
                                         limit=QUICK_SECONDS if world.redstart else 4.0)
        told = reason(output)
        if not world.redstart:
            return f"Apache: {told if ended else 'goes on, ' + brief(output)}"
        check(ended, f"no end after {QUICK_SECONDS:.0f} s: {told}")
        check("imeout" not in output and "RemotingConnectException" not in output, f"a time-out instead of an answer: {told}")
        check(output.strip() and len(told) > 20, f"no clear sentence: {told!r}")
        return f"{told} ({time.monotonic() - started:.1f} s)"


refused("updateStaticTopic", "-t", "mqadmin-static", "-qn", "4", "-c", "CLUSTER")
refused("remappingStaticTopic", "-t", "TOPIC", "-c", "CLUSTER")
refused("resetMasterFlushOffset", "-b", "BROKER", "-o", "0")
refused("getBrokerEpoch", "-b", "NAME")
refused("setCommitLogReadAheadMode", "-b", "BROKER", "-m", "0")
refused("getColdDataFlowCtrInfo", "-b", "BROKER")
refused("updateColdDataFlowCtrGroupConfig", "-b", "BROKER", "-g", "mqadmin-cold", "-v", "1024")
refused("removeColdDataFlowCtrGroupConfig", "-b", "BROKER", "-g", "mqadmin-cold")
refused("addBroker", "-c", "BROKER", "-b", "/no/such/broker.conf")
refused("removeBroker", "-c", "BROKER", "-b", "cluster:broker:1")
refused("exportPopRecord", "-b", "BROKER", "-d", "true")
refused("getControllerMetaData", "-a", "NAMESRV")
refused("getControllerConfig", "-a", "NAMESRV")
refused("updateControllerConfig", "-a", "NAMESRV", "-k", "key", "-v", "value")
refused("getSyncStateSet", "-a", "NAMESRV", "-b", "NAME")
refused("electMaster", "-a", "NAMESRV", "-b", "0", "-bn", "NAME", "-c", "CLUSTER")
refused("cleanBrokerMetadata", "-a", "NAMESRV", "-bn", "NAME", "-c", "CLUSTER")
refused("rocksDBConfigToJson", "-b", "BROKER", "-t", "topics")
refused("exportMetadataInRocksDB", "-p", "FOLDER", "-t", "topics")
refused("checkRocksdbCqWriteProgress", "-c", "CLUSTER")
