//! What name servers keep beside routes.

use anyhow::bail;
use redstart_client::admin::Error;

use super::context::{Context, Outcome, say};

pub async fn put(c: &Context) -> Outcome {
    c.admin.put_value(c.text("s")?, c.text("k")?, c.text("v")?).await?;
    say!(c, "create or update kv config to namespace success.");
    Ok(())
}

pub async fn delete(c: &Context) -> Outcome {
    c.admin.delete_value(c.text("s")?, c.text("k")?).await?;
    say!(c, "delete kv config from namespace success.");
    Ok(())
}

pub async fn wipe_permission(c: &Context) -> Outcome {
    let broker = c.text("b")?;
    let mut failed = Vec::new();
    for address in c.admin.names() {
        told(c, "wipe", broker, address, c.admin.wipe_write_permission(address, broker).await, &mut failed)?;
    }
    ended(failed)
}

pub async fn add_permission(c: &Context) -> Outcome {
    let broker = c.text("b")?;
    let mut failed = Vec::new();
    for address in c.admin.names() {
        told(c, "add", broker, address, c.admin.add_write_permission(address, broker).await, &mut failed)?;
    }
    ended(failed)
}

fn told(
    c: &Context,
    what: &str,
    broker: &str,
    address: &str,
    done: Result<i32, Error>,
    failed: &mut Vec<Error>,
) -> Outcome {
    match done {
        Ok(topics) => say!(c, "{what} write perm of broker[{broker}] in name server[{address}] OK, {topics}"),
        Err(error) => {
            say!(c, "{what} write perm of broker[{broker}] in name server[{address}] Failed");
            failed.push(error);
        }
    }
    Ok(())
}

/// The other name servers have done it all the same.
fn ended(failed: Vec<Error>) -> Outcome {
    match failed.as_slice() {
        [] => Ok(()),
        errors => bail!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}
