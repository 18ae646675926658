"""Users and access control lists."""

from shell import check

from .registry import command

USER, OTHER = "mqadmin-user", "mqadmin-other"


def user(world, name=USER):
    if f"user {name}" not in world.made:
        world.says("success", "createUser", "-b", world.broker, "-u", name, "-p", "secret12", "-t", "Normal")
        world.made.add(f"user {name}")
    return name


def acl(world, name=USER):
    user(world, name)
    if f"acl {name}" not in world.made:
        world.says("success", "createAcl", "-b", world.broker, "-s", f"User:{name}", "-r", "Topic:mqadmin-topic", "-a", "Pub,Sub",
                   "-i", "10.0.0.0/8", "-d", "Allow")
        world.made.add(f"acl {name}")
    return f"User:{name}"


@command("createUser")
def create_user(world):
    name = user(world)
    check("Exception" in world.run("createUser", "-b", world.broker, "-u", name, "-p", "secret12"), "it can be created twice")


@command("getUser")
def get_user(world):
    name = user(world)
    rows = world.rows("getUser", "-b", world.broker, "-u", name)
    check(rows[0][0] == name and "Normal" in rows[0], f"row: {rows}")


@command("listUser")
def list_user(world):
    name = user(world)
    check(any(row[0] == name for row in world.rows("listUser", "-b", world.broker)), "it is not listed")


@command("updateUser")
def update_user(world):
    name = user(world)
    world.says("success", "updateUser", "-b", world.broker, "-u", name, "-s", "disable")
    check("disable" in world.rows("getUser", "-b", world.broker, "-u", name)[0], "it is not disabled")


@command("copyUser")
def copy_user(world):
    name = user(world)
    world.says("success", "copyUser", "-f", world.broker, "-t", world.broker, "-u", name)


@command("createAcl")
def create_acl(world):
    acl(world)


@command("getAcl")
def get_acl(world):
    subject = acl(world)
    rows = world.rows("getAcl", "-b", world.broker, "-s", subject)
    check(rows[0][0] == subject and "Topic:mqadmin-topic" in rows[0] and "Allow" in rows[0], f"row: {rows}")


@command("listAcl")
def list_acl(world):
    subject = acl(world)
    check(any(row[0] == subject for row in world.rows("listAcl", "-b", world.broker)), "it is not listed")


@command("updateAcl")
def update_acl(world):
    subject = acl(world)
    world.says("success", "updateAcl", "-b", world.broker, "-s", subject, "-r", "Topic:mqadmin-topic", "-a", "Sub", "-d", "Deny")
    check("Deny" in world.rows("getAcl", "-b", world.broker, "-s", subject)[0], "it still allows")


@command("copyAcl")
def copy_acl(world):
    subject = acl(world)
    world.says("success", "copyAcl", "-f", world.broker, "-t", world.broker, "-s", subject)


@command("deleteAcl")
def delete_acl(world):
    subject = acl(world, OTHER)
    world.says("success", "deleteAcl", "-b", world.broker, "-s", subject)
    check(not any(row[0] == subject for row in world.rows("listAcl", "-b", world.broker)), "it is still listed")


@command("deleteUser")
def delete_user(world):
    name = user(world, "mqadmin-gone")
    world.says("success", "deleteUser", "-b", world.broker, "-u", name)
    check(not any(row[0] == name for row in world.rows("listUser", "-b", world.broker)), "it is still listed")
