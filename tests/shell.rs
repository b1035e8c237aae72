//! What shells and `man` get of `podnet`.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::find_tool;
use tests::podnet;

#[test]
fn bash_completes_what_podnet_takes() {
    let Some(bash) = find_tool("bash") else {
        return lab::skip("no bash");
    };
    let script = podnet(Path::new("/"), &["completions", "bash"], "");
    assert_eq!((script.status, script.stderr.as_str()), (0, ""));
    for (words, offered) in [
        ("podnet tra", "trace"),
        ("podnet plan po", "podcidrs"),
        ("podnet completions f", "fish"),
        ("podnet trace pod --t", "--to"),
    ] {
        let last = words.split(' ').count() - 1;
        let script = format!(
            "{}\nCOMP_WORDS=({words}); COMP_CWORD={last}\n\
             _podnet podnet \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.stdout
        );
        let done = Command::new(&bash).args(["-c", &script]).output().unwrap();
        let replies = String::from_utf8(done.stdout).unwrap();
        assert!(
            replies.lines().any(|reply| reply == offered),
            "{words}: {replies}"
        );
    }
}

#[test]
fn zsh_and_fish_have_theirs() {
    for (shell, begin) in [("zsh", "#compdef podnet\n"), ("fish", "")] {
        let script = podnet(Path::new("/"), &["completions", shell], "");
        assert_eq!(script.status, 0, "{shell}: {script:?}");
        assert!(script.stdout.starts_with(begin), "{shell}");
        assert!(script.stdout.contains("doctor"), "{shell}");
    }
    assert_eq!(podnet(Path::new("/"), &["completions", "sh"], "").status, 2);
}

#[test]
fn a_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let written = podnet(folder.path(), &["man", "--out", "share/man1"], "");
    assert_eq!(
        (written.status, written.stdout.as_str()),
        (0, ""),
        "{written:?}"
    );
    let page = |name: &str| fs::read_to_string(folder.path().join("share/man1").join(name));
    let whole = podnet(folder.path(), &["man"], "");
    assert_eq!(whole.stdout, page("podnet.1").unwrap());
    for (name, part) in [
        ("podnet-trace.1", "podnet trace 10.244.1.7"),
        (
            "podnet-plan-routes.1",
            "podnet plan routes \\-f cluster.yaml",
        ),
        ("podnet-routes-apply.1", "Exit status"),
    ] {
        let text = page(name).unwrap();
        assert!(
            text.starts_with(".ie") && text.contains(part),
            "{name}: {text}"
        );
    }
    // A file stands where the folder should be.
    fs::write(folder.path().join("taken"), "").unwrap();
    let refused = podnet(folder.path(), &["man", "--out", "taken"], "");
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("--out: cannot write to taken"),
        "{refused:?}"
    );
}
