//! Recognition of the credential commands in a kubeconfig that sign EKS tokens. The agent signs such tokens itself, so that it
//! needs neither the AWS CLI nor the authenticator.

use super::Audience;

/// Returns the audience of the token that this command would print. Returns `None` for any other command, and for one with
/// unsupported options such as another role. The caller must run such a command.
#[must_use]
pub fn audience(program: &str, arguments: &[String], environment: &[(String, String)]) -> Option<Audience> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let words = CommandWords::read(arguments)?;
    let cluster = match (name, words.plain.as_slice()) {
        ("aws", ["eks", "get-token"]) => words.one_of(&["--cluster-name", "--cluster-id"]),
        ("aws-iam-authenticator", ["token"]) => words.one_of(&["-i", "--cluster-id"]),
        ("kerf-agent", ["token"]) => words.one_of(&["--cluster-name"]),
        _ => None,
    }?;
    let known = ["--cluster-name", "--cluster-id", "-i", "--region", "--output"];
    if words
        .options
        .iter()
        .any(|(option, value)| !known.contains(option) || (*option == "--output" && *value != "json"))
    {
        return None;
    }
    let options = TokenOptions::read(environment)?;
    let region = words.one_of(&["--region"]).or(options.region)?;
    let plausible = !cluster.is_empty() && !region.is_empty();
    plausible.then(|| Audience { cluster: cluster.to_owned(), region: region.to_owned(), fips: options.fips })
}

/// A command line: plain words, and options with their values.
struct CommandWords<'a> {
    plain: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> CommandWords<'a> {
    /// Parses options. Every option here takes a value, after a blank or `=`; an option without a value is an error.
    fn read(arguments: &'a [String]) -> Option<Self> {
        let mut words = Self { plain: Vec::new(), options: Vec::new() };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            match word.split_once('=') {
                _ if !word.starts_with('-') => words.plain.push(word),
                Some((option, value)) => words.options.push((option, value)),
                None => words.options.push((word, rest.next()?)),
            }
        }
        Some(words)
    }

    /// Returns the value of an option with one of these names, if exactly one exists.
    fn one_of(&self, names: &[&str]) -> Option<&'a str> {
        let mut found = self.options.iter().filter(|(option, _)| names.contains(option));
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }
}

/// Options from the environment.
#[derive(Default)]
struct TokenOptions<'a> {
    fips: bool,
    region: Option<&'a str>,
}

impl<'a> TokenOptions<'a> {
    /// Parses the environment. An unknown variable may select other credentials, so the command must be run.
    fn read(environment: &'a [(String, String)]) -> Option<Self> {
        let mut options = Self::default();
        for (name, value) in environment {
            match (name.as_str(), value.as_str()) {
                ("AWS_USE_FIPS_ENDPOINT", "true" | "false") => options.fips = value == "true",
                ("AWS_STS_REGIONAL_ENDPOINTS", "regional") => {}
                ("AWS_REGION" | "AWS_DEFAULT_REGION", region) => options.region = Some(region),
                _ => return None,
            }
        }
        Some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(line: &str) -> Option<(String, String, bool)> {
        let (environment, command): (Vec<&str>, Vec<&str>) =
            line.split(' ').partition(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
        let environment: Vec<(String, String)> =
            environment.iter().filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.into(), b.into())).collect();
        let arguments: Vec<String> = command[1..].iter().map(|word| (*word).to_owned()).collect();
        audience(command[0], &arguments, &environment).map(|it| (it.cluster, it.region, it.fips))
    }

    #[test]
    fn audience_recognises_the_commands_of_images() {
        let rows = [
            "aws eks get-token --cluster-name c --region r",
            "/usr/bin/aws --region r eks get-token --cluster-name c --output json",
            "aws eks get-token --cluster-id=c --region=r",
            "/usr/bin/aws-iam-authenticator token -i c --region r",
            "aws-iam-authenticator token --cluster-id c --region r",
            "/usr/bin/kerf-agent token --cluster-name c --region r",
            "AWS_REGION=r AWS_STS_REGIONAL_ENDPOINTS=regional aws eks get-token --cluster-name c",
        ];
        for row in rows {
            assert_eq!(recognised(row), Some(("c".into(), "r".into(), false)), "{row}");
        }
        let fips = "AWS_USE_FIPS_ENDPOINT=true aws eks get-token --cluster-name c --region r";
        assert_eq!(recognised(fips), Some(("c".into(), "r".into(), true)));
    }

    #[test]
    fn audience_returns_none_when_a_command_has_other_options() {
        let rows = [
            "aws eks get-token --cluster-name c --region r --role-arn arn:aws:iam::1:role/x",
            "aws eks get-token --cluster-name c --region r --profile other",
            "aws eks get-token --cluster-name c --cluster-id d --region r",
            "aws eks get-token --cluster-name c --region r --output text",
            "aws eks get-token --cluster-name c",
            "aws eks get-token --cluster-name c --region",
            "aws eks get-token --region r",
            "aws eks describe-cluster --name c --region r",
            "aws-iam-authenticator token -i c --region r --role arn:aws:iam::1:role/x",
            "AWS_PROFILE=other aws eks get-token --cluster-name c --region r",
            "AWS_STS_REGIONAL_ENDPOINTS=legacy aws-iam-authenticator token -i c --region r",
            "AWS_USE_FIPS_ENDPOINT=perhaps aws eks get-token --cluster-name c --region r",
            "gke-gcloud-auth-plugin",
        ];
        for row in rows {
            assert_eq!(recognised(row), None, "{row}");
        }
    }
}
