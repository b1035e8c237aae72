use std::fs;

use serde_json::json;

use super::*;
use crate::exec::tests::script;

/// A folder of plugins that note their calls, and a cache beside it.
struct Fixture {
    folder: tempfile::TempDir,
    runtime: Runtime,
}

/// Notes the variables and the input, then fails if it is to, else answers.
const PLUGIN: &str = r#"
cd "$(dirname "$0")"
kind=$(basename "$0")
input=$(cat)
echo "$CNI_COMMAND $kind $CNI_CONTAINERID $CNI_IFNAME [$CNI_NETNS] [$CNI_ARGS]" >> calls
echo "$input" >> "$kind.input"
if [ -e "$kind.fails" ]; then echo '{"code": 77, "msg": "no", "details": "d"}'; exit 1; fi
case $CNI_COMMAND in
ADD) echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "'$kind'"}], "more": 1}';;
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}';;
esac
"#;

impl Fixture {
    fn new() -> Self {
        let (folder, first) = script("first", PLUGIN);
        fs::copy(first, folder.path().join("second")).unwrap();
        let path = vec![folder.path().to_owned()];
        let runtime = Runtime::new(path, folder.path().join("cache"));
        Fixture { folder, runtime }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    /// What was noted since the last time.
    fn calls(&self) -> Vec<String> {
        let calls = self.read("calls").lines().map(str::to_owned).collect();
        let _ = fs::remove_file(self.folder.path().join("calls"));
        calls
    }

    fn last_input(&self, kind: &str) -> Value {
        let text = self.read(&format!("{kind}.input"));
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    fn let_fail(&self, kind: &str) {
        fs::write(self.folder.path().join(format!("{kind}.fails")), "").unwrap();
    }
}

fn list(version: &str) -> NetworkList {
    let value = json!({
        "cniVersion": version, "name": "n",
        "plugins": [{"type": "first"}, {"type": "second", "capabilities": {"mac": true}}],
    });
    NetworkList::parse(value.to_string().into()).unwrap()
}

fn conf() -> RuntimeConf {
    RuntimeConf {
        container_id: "c".into(),
        netns: Some("/run/netns/p".into()),
        ifname: "eth0".into(),
        args: parse_args("A=1;B=2").unwrap(),
        capability_args: json!({"mac": "x"}).as_object().cloned().unwrap(),
    }
}

#[test]
fn a_whole_life() {
    let fixture = Fixture::new();
    let Fixture { runtime, .. } = &fixture;
    let list = list("1.0.0");
    let result = runtime.add(&list, &conf()).unwrap();
    assert_eq!(result.interfaces[0].name, "second");
    let rest = "c eth0 [/run/netns/p] [A=1;B=2]";
    assert_eq!(
        fixture.calls(),
        [format!("ADD first {rest}"), format!("ADD second {rest}")]
    );
    assert_eq!(fixture.last_input("first").get("prevResult"), None);
    let expected = json!({
        "cniVersion": "1.0.0", "name": "n", "type": "second", "runtimeConfig": {"mac": "x"},
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "first"}], "dns": {}},
    });
    assert_eq!(fixture.last_input("second"), expected);

    // Without arguments of its own, CHECK is given those of ADD, and the last result.
    let bare = RuntimeConf {
        args: Vec::new(),
        capability_args: Map::new(),
        ..conf()
    };
    runtime.check(&list, &bare).unwrap();
    assert_eq!(
        fixture.calls(),
        [
            format!("CHECK first {rest}"),
            format!("CHECK second {rest}")
        ]
    );
    assert_eq!(
        fixture.last_input("first")["prevResult"]["interfaces"][0]["name"],
        "second"
    );
    assert_eq!(fixture.last_input("second")["runtimeConfig"]["mac"], "x");

    let gone = RuntimeConf {
        netns: None,
        ..bare
    };
    runtime.del(&list, &gone).unwrap();
    let rest = "c eth0 [] [A=1;B=2]";
    assert_eq!(
        fixture.calls(),
        [format!("DEL second {rest}"), format!("DEL first {rest}")]
    );
    assert_eq!(
        fixture.last_input("first")["prevResult"]["interfaces"][0]["name"],
        "second"
    );

    // Once more, with nothing cached.
    runtime.del(&list, &gone).unwrap();
    let rest = "c eth0 [] []";
    assert_eq!(
        fixture.calls(),
        [format!("DEL second {rest}"), format!("DEL first {rest}")]
    );
    assert_eq!(fixture.last_input("first").get("prevResult"), None);
}

#[test]
fn the_failed_plugin_is_named_and_stops_the_chain() {
    let fixture = Fixture::new();
    let Fixture { runtime, .. } = &fixture;
    let list = list("1.0.0");
    runtime.add(&list, &conf()).unwrap();
    fixture.let_fail("first");
    fixture.let_fail("second");
    fixture.calls();
    let failures: [(_, _, &dyn Fn() -> Result<(), Error>); 3] = [
        ("add", "first", &|| runtime.add(&list, &conf()).map(|_| ())),
        ("check", "first", &|| runtime.check(&list, &conf())),
        ("delete", "second", &|| runtime.del(&list, &conf())),
    ];
    for (verb, kind, failure) in failures {
        let msg = format!("plugin type={kind:?} failed ({verb}): no");
        assert_eq!(failure(), Err(Error::new(77, msg).details("d")));
        assert_eq!(fixture.calls().len(), 1, "{verb}");
    }
    // A DEL that failed must be able to come again with all that was cached.
    assert!(
        fixture
            .read("cache/results/n-c-eth0")
            .contains("cniCacheV1")
    );
}

#[test]
fn older_versions() {
    let fixture = Fixture::new();
    let Fixture { runtime, .. } = &fixture;
    let list = list("0.3.1");
    runtime.add(&list, &conf()).unwrap();
    assert_eq!(
        fixture.last_input("second")["prevResult"]["cniVersion"],
        "0.3.1"
    );
    let error = runtime.check(&list, &conf()).unwrap_err();
    assert_eq!(
        error.msg,
        "configuration version \"0.3.1\" does not support the CHECK command"
    );
    runtime.del(&list, &conf()).unwrap();
    assert_eq!(fixture.last_input("first").get("prevResult"), None);
    fixture.calls();
    runtime.status(&list).unwrap();
    runtime.gc(&list, &[]).unwrap();
    assert!(fixture.calls().is_empty());
}

#[test]
fn status_gc_and_versions() {
    let fixture = Fixture::new();
    let Fixture { runtime, .. } = &fixture;
    let list = list("1.1.0");
    runtime.status(&list).unwrap();
    runtime
        .gc(&list, &[("c".to_owned(), "eth0".to_owned())])
        .unwrap();
    assert_eq!(runtime.versions("first").unwrap(), ["0.4.0", "1.0.0"]);
    let verbs = [
        "STATUS first",
        "STATUS second",
        "GC first",
        "GC second",
        "VERSION first",
    ];
    assert_eq!(fixture.calls(), verbs.map(|verb| format!("{verb}   [] []")));
    fixture.let_fail("first");
    fixture.let_fail("second");
    let error = runtime.gc(&list, &[]).unwrap_err();
    assert_eq!(
        error.msg,
        "plugin type=\"first\" failed (gc): no; plugin type=\"second\" failed (gc): no"
    );
}

#[test]
fn gc_also_removes_what_the_cache_knows() {
    let fixture = Fixture::new();
    let Fixture { runtime, .. } = &fixture;
    let list = list("1.0.0");
    for id in ["alive", "dead"] {
        let conf = RuntimeConf {
            container_id: id.into(),
            ..conf()
        };
        runtime.add(&list, &conf).unwrap();
    }
    let mut other = list.clone();
    other.name = "other".into();
    runtime.add(&other, &conf()).unwrap();
    let known = |runtime: &Runtime| -> Vec<String> {
        let all = runtime.attachments().unwrap().into_iter();
        all.map(|known| known.attachment.to_string()).collect()
    };
    assert_eq!(
        known(runtime),
        ["n/alive/eth0", "n/dead/eth0", "other/c/eth0"]
    );
    fixture.calls();
    let valid = [("alive".to_owned(), "eth0".to_owned())];
    // An older list has no GC; DEL is given what ADD was.
    runtime.gc(&list, &valid).unwrap();
    let rest = "dead eth0 [/run/netns/p] [A=1;B=2]";
    assert_eq!(
        fixture.calls(),
        [format!("DEL second {rest}"), format!("DEL first {rest}")]
    );
    assert_eq!(known(runtime), ["n/alive/eth0", "other/c/eth0"]);

    let mut newer = list.clone();
    newer.cni_version = Version::V1_1_0;
    fixture.let_fail("second");
    let error = runtime.gc(&newer, &[]).unwrap_err();
    let verbs: Vec<_> = fixture
        .calls()
        .iter()
        .map(|call| call[..9].to_owned())
        .collect();
    assert_eq!(verbs, ["DEL secon", "GC first ", "GC second"]);
    assert_eq!(
        error.msg,
        "plugin type=\"second\" failed (delete): no; plugin type=\"second\" failed (gc): no"
    );
    assert_eq!(known(runtime), ["n/alive/eth0", "other/c/eth0"]);

    newer.disable_gc = true;
    runtime.gc(&newer, &[]).unwrap();
    assert!(fixture.calls().is_empty());
}

#[test]
fn disabled_check_and_invalid_names() {
    let fixture = Fixture::new();
    let Fixture { runtime, .. } = &fixture;
    let mut list = list("1.0.0");
    list.disable_check = true;
    runtime.check(&list, &conf()).unwrap();
    for conf in [
        RuntimeConf {
            container_id: "../x".into(),
            ..conf()
        },
        RuntimeConf {
            ifname: "a/b".into(),
            ..conf()
        },
        RuntimeConf {
            ifname: String::new(),
            ..conf()
        },
    ] {
        assert_eq!(runtime.add(&list, &conf).unwrap_err().code, 4);
        assert_eq!(runtime.check(&list, &conf).unwrap_err().code, 4);
        assert_eq!(runtime.del(&list, &conf).unwrap_err().code, 4);
    }
    assert!(fixture.calls().is_empty());
}

#[test]
fn args() {
    assert_eq!(parse_args(""), Ok(Vec::new()));
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    assert_eq!(
        parse_args("A=1;B=2"),
        Ok(vec![pair("A", "1"), pair("B", "2")])
    );
    for text in ["A", "A=", "=1", "A=1;", "A=1=2"] {
        assert_eq!(parse_args(text).unwrap_err().code, 4, "{text}");
    }
}
