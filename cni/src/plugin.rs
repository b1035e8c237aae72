//! The skeleton that turns a [`Plugin`] into a process.

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use crate::log::{self, Log};
use crate::steps::Steps;
use crate::{AddResult, Attachment, Command, Config, Env, Error, Version, code, config, pretty};

/// The most that is read from standard input, in bytes. A configuration with its `prevResult` is
/// about a thousandth of that.
const MAX_STDIN: u64 = 16 << 20;

/// The step of a call that reads what it is about, and the one that gives the answer.
const READ: &str = "read";
const ANSWER: &str = "answer";

/// One call of a plugin, parsed and validated.
#[derive(Debug, Clone)]
pub struct Request {
    /// The environment.
    pub env: Env,
    /// The configuration.
    pub config: Config,
    steps: Steps,
}

impl Request {
    /// A call with that environment and configuration.
    pub fn new(env: Env, config: Config) -> Request {
        let steps = Steps::begin(READ);
        Request { env, config, steps }
    }

    /// A part of the call begins, and the one before it ends: the log tells how long each took.
    pub fn step(&self, name: &'static str) {
        self.steps.next(name);
    }

    /// Whom the call is about (ADD, DEL, CHECK).
    pub fn attachment(&self) -> Attachment {
        Attachment::new(&self.config.name, &self.env.container_id, &self.env.ifname)
    }
}

/// What a plugin does for each verb.
pub trait Plugin {
    /// The name in the about text, as `bridge`.
    const NAME: &'static str;
    /// The versions it speaks, oldest first.
    const VERSIONS: &'static [Version] = Version::ALL;

    /// Makes the attachment.
    ///
    /// # Errors
    /// Whatever prevents it; the machine is then as it was.
    fn add(&self, request: &Request) -> Result<AddResult, Error>;

    /// Unmakes the attachment, whatever of it is there.
    ///
    /// # Errors
    /// Only when something real is still there.
    fn del(&self, request: &Request) -> Result<(), Error>;

    /// Compares what is there with what ADD made.
    ///
    /// # Errors
    /// The first difference.
    fn check(&self, request: &Request) -> Result<(), Error>;

    /// Removes what belongs to no valid attachment.
    ///
    /// # Errors
    /// What could not be removed.
    fn gc(&self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }

    /// Whether ADD can be served.
    ///
    /// # Errors
    /// Code 50 or 51 with the reason.
    fn status(&self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }
}

/// The whole `main` of a plugin: reads environment and standard input, calls the verb, prints.
pub fn run<P: Plugin>(plugin: &P) -> ExitCode {
    report_panics(newest::<P>());
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    let asked_for_version = |arg: std::ffi::OsString| arg == "--version" || arg == "-V";
    let succeeded = if std::env::args_os().skip(1).any(asked_for_version) {
        deliver(&mut stdout, &about::<P>()).is_ok()
    } else {
        let lookup = |name: &str| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
        serve(plugin, lookup, io::stdin(), &mut stdout, &mut stderr)
    };
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What a verb has to say.
#[derive(Default)]
struct Answer {
    /// For standard output.
    text: String,
    /// The ADD that made it, to be undone where the runtime never hears of it.
    made_by: Option<Request>,
}

/// What is known of a call, whatever becomes of it.
struct Call {
    /// The configuration's, as soon as it is known: errors are printed in it too.
    version: Version,
    steps: Steps,
    log: Log,
}

/// One call from its streams to its streams; whether it succeeded.
fn serve<P: Plugin>(
    plugin: &P,
    lookup: impl Fn(&str) -> Option<String>,
    stdin: impl Read,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> bool {
    let command = lookup("CNI_COMMAND").unwrap_or_default();
    if command.is_empty() {
        // Somebody tries it by hand. With a broken standard error there is nobody to tell.
        let _ = deliver(stderr, &about::<P>());
        return true;
    }
    let steps = Steps::begin(READ);
    let file = lookup(log::VARIABLE);
    let mut call = Call {
        version: newest::<P>(),
        log: Log::begin(P::NAME, file.as_deref(), steps.clone()),
        steps,
    };
    let answer = answer(plugin, &command, &lookup, stdin, &mut call);
    call.steps.next(ANSWER);
    let outcome = give(plugin, answer, call.version, stdout);
    call.log.write(call.version, lookup, &outcome, stderr);
    outcome.is_ok()
}

/// Prints the answer or the error; what was printed, or the error.
fn give<P: Plugin>(
    plugin: &P,
    answer: Result<Answer, Error>,
    version: Version,
    stdout: &mut impl Write,
) -> Result<String, Error> {
    let answer = answer.inspect_err(|error| {
        let _ = deliver(stdout, &pretty(&error.to_json(version)));
    })?;
    match deliver(stdout, &answer.text) {
        Ok(()) => Ok(answer.text),
        Err(error) => {
            // The runtime is gone; the exit status is all that can still be said.
            if let Some(request) = &answer.made_by {
                let _ = plugin.del(request);
            }
            let msg = format!("cannot write to standard output: {error}");
            Err(Error::new(code::IO_FAILURE, msg))
        }
    }
}

/// Parses, calls the verb, and puts its answer into words.
fn answer<P: Plugin>(
    plugin: &P,
    command: &str,
    lookup: impl Fn(&str) -> Option<String>,
    stdin: impl Read,
    call: &mut Call,
) -> Result<Answer, Error> {
    // An unknown command needs no variables, and is reported after what is wrong with the input.
    let env = match Command::parse(command) {
        Ok(Command::Version) => {
            return Ok(Answer {
                text: versions::<P>(),
                ..Answer::default()
            });
        }
        Ok(command) => Ok(Env::read(command, lookup)?),
        Err(unknown) => Err(unknown),
    };
    let raw = read_all(stdin)?;
    let value = Config::decode(&raw)?;
    call.log.read(&value);
    call.version = config::known_version(&value).unwrap_or(call.version);
    let name = config::network_name(&value)?;
    let env = env?;
    let config = Config::new(raw, value, name, env.command, P::VERSIONS)?;
    let steps = call.steps.clone();
    perform(plugin, Request { env, config, steps })
}

fn perform<P: Plugin>(plugin: &P, request: Request) -> Result<Answer, Error> {
    match request.env.command {
        Command::Add => return add(plugin, request),
        Command::Check => {
            request.config.validate_common()?;
            plugin.check(&request)?;
        }
        Command::Del => plugin.del(&request)?,
        Command::Gc => plugin.gc(&request)?,
        Command::Status => {
            request.config.validate_common()?;
            plugin.status(&request)?;
        }
        Command::Version => {}
    }
    Ok(Answer::default())
}

fn add<P: Plugin>(plugin: &P, request: Request) -> Result<Answer, Error> {
    request.config.validate_common()?;
    let result = plugin.add(&request)?;
    match result.to_json(request.config.cni_version) {
        Ok(value) => Ok(Answer {
            text: pretty(&value),
            made_by: Some(request),
        }),
        Err(error) => {
            let errors = [Some(error), plugin.del(&request).err()];
            Error::all(errors.into_iter().flatten().collect()).map(|()| Answer::default())
        }
    }
}

fn read_all(stdin: impl Read) -> Result<Vec<u8>, Error> {
    let mut raw = Vec::new();
    stdin
        .take(MAX_STDIN + 1)
        .read_to_end(&mut raw)
        .map_err(|error| {
            Error::new(
                code::IO_FAILURE,
                format!("error reading from stdin: {error}"),
            )
        })?;
    if raw.len() as u64 > MAX_STDIN {
        return Err(Error::new(
            code::DECODING_FAILURE,
            format!("the network config on stdin is larger than {MAX_STDIN} bytes"),
        ));
    }
    Ok(raw)
}

fn deliver(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

fn newest<P: Plugin>() -> Version {
    P::VERSIONS.last().copied().unwrap_or(Version::NEWEST)
}

/// What a person sees who starts the plugin by hand; installers read the first line.
fn about<P: Plugin>() -> String {
    let versions: Vec<_> = P::VERSIONS.iter().map(|v| v.as_str()).collect();
    format!(
        "CNI {} plugin v{}\nCNI protocol versions supported: {}\n",
        P::NAME,
        env!("CARGO_PKG_VERSION"),
        versions.join(", ")
    )
}

/// The answer to VERSION. Its `cniVersion` should be that of the input (specification, section
/// "VERSION"), but runtimes leave standard input open without writing, so nobody reads it.
fn versions<P: Plugin>() -> String {
    let versions: Vec<_> = P::VERSIONS.iter().map(|v| v.as_str()).collect();
    let value = serde_json::json!({
        "cniVersion": newest::<P>().as_str(),
        "supportedVersions": versions,
    });
    format!("{value}\n")
}

/// A plugin that dies must still say so where the runtime listens.
fn report_panics(version: Version) {
    std::panic::set_hook(Box::new(move |info| {
        let error = Error::new(code::INTERNAL, "the plugin panicked").details(info.to_string());
        let _ = deliver(&mut io::stdout(), &pretty(&error.to_json(version)));
        std::process::exit(1);
    }));
}
