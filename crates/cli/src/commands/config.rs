//! `evenkeel config …`, `evenkeel node run`, `evenkeel cluster init`: what needs the configuration
//! file.

use std::path::Path;

use evenkeel_node::Config;
use evenkeel_node::certificates::{self, Founded};
use evenkeel_node::config::DEFAULT_PATH;

use super::Context;
use crate::args::{ConfigCommand, RunArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{phrases, say};

/// Runs one of `evenkeel config …`.
///
/// # Errors
/// If the configuration cannot be used.
pub fn run(context: &Context, command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(args) => {
            let file = args.file.as_deref().or(args.config.as_deref());
            let (config, origin) = load(file)?;
            let problems = evenkeel_node::preflight::problems(&config);
            if !problems.is_empty() {
                return Err(unusable(&origin, &problems));
            }
            if !context.global.quiet {
                let warnings = evenkeel_node::preflight::warnings(&config);
                say(&format!("{origin}: good\n{}", phrases::warnings(&warnings)));
            }
        }
        ConfigCommand::Show(args) => show(context, args)?,
    }
    Ok(())
}

/// A node does not start with this configuration on this machine.
fn unusable(origin: &str, problems: &[String]) -> Failure {
    let what =
        format!("{origin}: a node would not start with it on this machine, or not as it says");
    Failure::new(what, problems.join("\n")).advise("correct that, then check it again")
}

/// Does the step for which a node has executed this program, and ends. Returns if none has.
pub fn serve_if_asked() {
    evenkeel_node::serve_if_asked();
}

/// Runs the node until SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot start.
pub fn run_node(args: &RunArgs) -> Result<(), Failure> {
    let (config, origin) = load(args.config.as_deref())?;
    evenkeel_node::run(config).map_err(|error| {
        Failure::new("the node does not start", error)
            .advise(format!("correct that, or the configuration ({origin}), then start it again"))
    })
}

/// Makes the cluster's authority, beside a node that does not run.
///
/// # Errors
/// If there is one already, the node runs, or it is not to serve the coordinator.
pub fn init_cluster(context: &Context, args: &RunArgs) -> Result<(), Failure> {
    let (config, origin) = load(args.config.as_deref())?;
    let founded = certificates::init(&config).map_err(|why| {
        Failure::new("the cluster has got no authority", why)
            .advise(format!("correct that, or the configuration ({origin}), then try again"))
    })?;
    if context.global.json {
        let Founded { cluster, key, certificate, fingerprint } = founded;
        say(&format!(
            "{}\n",
            serde_json::json!({
                "version": 1, "cluster": cluster, "key": key, "certificate": certificate,
                "fingerprint": fingerprint,
            })
        ));
    } else if !context.global.quiet {
        say(&reported(&founded));
    }
    Ok(())
}

/// What was made, and what to do now.
fn reported(founded: &Founded) -> String {
    format!(
        "Cluster {} has an authority, {}:\n  {}  its private key\n  {}  its certificate, for other programs\n\n\
        Back up the private key where only you can read it: whoever has it can be any node of the cluster,\n\
        and without it no node joins, and no certificate is renewed. Then start this node, and on it:\n\n  evenkeel node invite\n",
        founded.cluster,
        founded.fingerprint,
        founded.key.display(),
        founded.certificate.display(),
    )
}

/// The configuration, and where it comes from.
///
/// # Errors
/// If it cannot be used.
pub(super) fn load(config: Option<&Path>) -> Result<(Config, String), Failure> {
    let path = config.unwrap_or(Path::new(DEFAULT_PATH));
    if config.is_none() && !Path::new(DEFAULT_PATH).exists() {
        return Ok((
            Config::default(),
            format!("built-in defaults ({DEFAULT_PATH} does not exist)"),
        ));
    }
    let config = Config::load(path).map_err(|error| {
        Failure::new("the configuration cannot be used", error)
            .advise("correct it, then check it: evenkeel config check PATH")
            .exit(Exit::Failed)
    })?;
    Ok((config, path.display().to_string()))
}

/// Every setting with its value.
fn show(context: &Context, args: &RunArgs) -> Result<(), Failure> {
    let (config, origin) = load(args.config.as_deref())?;
    let failed = |why: String| Failure::new("cannot write the configuration", why);
    if context.global.json {
        let config = serde_json::to_value(&config).map_err(|error| failed(error.to_string()))?;
        say(&format!("{}\n", serde_json::json!({"version": 1, "from": origin, "config": config})));
        return Ok(());
    }
    let text = toml::to_string_pretty(&config).map_err(|error| failed(error.to_string()))?;
    say(&format!("# from {origin}; keys that are not shown have no value\n{text}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_a_line() {
        let problems = ["the key file /k: no", "nbd.tls: no"].map(str::to_owned);
        let expected = "evenkeel: /etc/e.toml: a node would not start with it on this machine, or not as it says\n  \
            why: the key file /k: no\n       nbd.tls: no\n  do:  correct that, then check it again\n";
        assert_eq!(unusable("/etc/e.toml", &problems).render(), expected);
    }
}
