use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process open as many files as it may: each connection is one, and shells give only 1,024. Says how many.
pub fn raise_file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let files = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}
