//! Key-value settings and write permissions that name servers keep.

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
        report(
            c,
            "wipe",
            broker,
            address,
            c.admin.wipe_write_permission(address, broker).await,
            &mut failed,
        )?;
    }
    result(failed)
}

pub async fn add_permission(c: &Context) -> Outcome {
    let broker = c.text("b")?;
    let mut failed = Vec::new();
    for address in c.admin.names() {
        report(c, "add", broker, address, c.admin.add_write_permission(address, broker).await, &mut failed)?;
    }
    result(failed)
}

fn report(
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

/// The errors of the name servers that failed; the others have made the change.
fn result(failed: Vec<Error>) -> Outcome {
    match failed.as_slice() {
        [] => Ok(()),
        errors => bail!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}
