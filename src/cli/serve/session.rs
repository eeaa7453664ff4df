//! The process of one session: its limits, then requests from the descriptor that it was started
//! with.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use reflex::{Error, Result, serve};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::args::ServeArgs;

/// Serves the session whose connection is standard input.
pub fn run(args: &ServeArgs, descriptor: i32, folder: &Path) -> Result<ExitCode> {
    if descriptor != 0 {
        return Err(Error::input("--session: the connection is standard input, 0"));
    }
    limit(args)?;
    let contents = folder.parent().unwrap_or(folder).join("contents");
    let contents = args.contents.clone().unwrap_or(contents);
    let options = args.options(folder.to_owned(), contents)?;
    let failed = |e: std::io::Error| Error::io("the connection".as_ref(), &e);
    let connection = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let input = File::from(connection);
    let mut output = input.try_clone().map_err(failed)?;
    serve::run(options, input, &mut output)?;
    Ok(ExitCode::SUCCESS)
}

/// Limits this process, before it reads a byte of the client's.
fn limit(args: &ServeArgs) -> Result<()> {
    let limits = &args.limits;
    for (resource, most) in [
        (Resource::As, limits.max_memory),
        (Resource::Cpu, limits.max_cpu),
        (Resource::Fsize, limits.max_files),
        (Resource::Nofile, limits.max_descriptors),
        (Resource::Core, 0),
    ] {
        // A limit of the listener's own that is lower stays.
        let maximum = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let most = Some(most.min(maximum));
        setrlimit(resource, Rlimit { current: most, maximum: most })
            .map_err(|e| Error::io(format!("{resource:?}").as_ref(), &e.into()))?;
    }
    Ok(())
}
