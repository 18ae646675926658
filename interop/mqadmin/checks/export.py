"""Exports to files."""

import json

from shell import check

from .registry import command


@command("exportMetadata")
def export_metadata(world):
    topic, group = world.topic(), world.group("mqadmin-export")
    world.says("success", "exportMetadata", "-c", world.cluster, "-f", world.folder)
    exported = json.loads((world.folder / "metadata.json").read_text())
    check(exported["topicConfigTable"][topic]["writeQueueNums"] == 4, "the topic is missing")
    check(group in exported["subscriptionGroupTable"], "the group is missing")
    world.says("success", "exportMetadata", "-b", world.broker, "-t", "-f", world.folder)
    check(topic in (world.folder / "topic.json").read_text(), "-t: the topic is missing")
    world.says("success", "exportMetadata", "-b", world.broker, "-g", "-f", world.folder)
    check(group in (world.folder / "subscriptionGroup.json").read_text(), "-g: the group is missing")


@command("exportConfigs")
def export_configs(world):
    world.says("success", "exportConfigs", "-c", world.cluster, "-f", world.folder)
    exported = json.loads((world.folder / "configs.json").read_text())
    check(world.broker_name in str(exported["brokerConfigs"]), f"exported: {exported}")
    check(exported["clusterScale"]["namesrvSize"] == 1, f"scale: {exported['clusterScale']}")


@command("exportMetrics")
def export_metrics(world):
    world.filled("mqadmin-export")
    world.says("success", "exportMetrics", "-c", world.cluster, "-f", world.folder)
    exported = json.loads((world.folder / "metrics.json").read_text())
    check(world.broker_name in str(exported["evaluateReport"]), f"exported: {exported}")
    check(exported["totalData"], f"totals: {exported['totalData']}")
