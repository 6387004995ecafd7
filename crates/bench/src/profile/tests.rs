use super::*;

const ALL: [Profile; 6] = [
    Profile::Quick,
    Profile::ClusterMd,
    Profile::Gluster,
    Profile::MdRaid1,
    Profile::Drbd,
    Profile::NetworkStorage,
];

fn original(profile: Profile) -> String {
    let choice = Choice { scale: Some(1.0), ..Choice::default() };
    Profile::dry_run(&profile.plan(&choice).unwrap())
}

#[test]
fn every_profile_has_a_plan_that_begins_with_raw() {
    for profile in ALL {
        let plan = profile.plan(&Choice::default()).unwrap();
        assert!(matches!(plan.recipes[0], Recipe::Raw | Recipe::RawLoop), "{profile:?}");
        assert!(!plan.tasks.is_empty() && plan.size > 0 && !plan.method.is_empty());
        let mut ids: Vec<_> = plan.tasks.iter().map(|task| &task.workload.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), plan.tasks.len(), "{profile:?} has a workload twice");
    }
}

#[test]
fn at_full_scale_the_original_commands_are_shown() {
    let text = original(Profile::MdRaid1);
    assert!(
        text.contains("dd oflag=direct if=/dev/zero of=/dev/DEVICE bs=512M count=1\n"),
        "{text}"
    );
    assert!(text.contains("bs=512 count=10000\n") && text.contains("10 times"), "{text}");
    assert!(text.contains("hdparm -tT /dev/DEVICE") && text.contains("5 times"), "{text}");
    for word in [
        "mkfs.xfs -f -q -d su=256k,sw=1 -l version=2,su=256k /dev/DEVICE\nbonnie++ -d /mnt/DIRECTORY -s 320G -u USER -n 0 -f -b\n",
        "bonnie++ -d /mnt/DIRECTORY -s 70G -u USER -n 10 -b\n",
    ] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let text = original(Profile::Drbd);
    for word in
        ["--numjobs=64", "--size=512M", "--runtime=10 ", "--rw=randwrite", "--bs=4k", "psync"]
    {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let text = original(Profile::Gluster);
    for word in ["--size=10G", "--runtime=240", "--direct=0", "--numjobs=4", "bs=128M count=1"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let text = original(Profile::ClusterMd);
    for word in [
        "iflag=direct,nonblock if=/dev/DEVICE of=/dev/null bs=1M count=40960",
        "--bs=64k",
        "--iodepth=64",
        "--rwmixread=70",
        "iozone -i 0 -i 1 -i 2 -i 3 -i 4 -i 5 -i 6 -i 7 -i 8 -f /mnt/DIRECTORY/benchmark -Rab /home/test/iotest.xls -g 8G -n 4G -C\n",
    ] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let text = original(Profile::NetworkStorage);
    for word in
        ["--ioengine=posixaio", "--size=4G", "--end_fsync=1", "--runtime=60", "--time_based"]
    {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn configurations_are_chosen_by_name() {
    let choice = Choice { only: vec!["qemu-nbd".to_owned()], ..Choice::default() };
    let plan = Profile::Quick.plan(&choice).unwrap();
    assert!(plan.recipes.contains(&Recipe::QemuNbd) && plan.recipes.contains(&Recipe::Raw));
    assert!(!plan.recipes.contains(&Recipe::Local(2)));
    let choice = Choice { with: vec!["nonsense".to_owned()], ..Choice::default() };
    let failure = Profile::Quick.plan(&choice).unwrap_err();
    assert!(failure.remedy.contains("quorum-nbd"), "{failure:?}");
}

#[test]
fn numbers_without_sense_are_refused() {
    for choice in [
        Choice { scale: Some(0.0), ..Choice::default() },
        Choice { scale: Some(f64::NAN), ..Choice::default() },
        Choice { rounds: Some(0), ..Choice::default() },
        Choice { seconds: Some(-1.0), ..Choice::default() },
        Choice { size: Some(4096), ..Choice::default() },
    ] {
        assert_eq!(Profile::Quick.plan(&choice).unwrap_err().kind, Kind::Usage);
    }
}

#[test]
fn workloads_are_chosen_by_identity() {
    let choice = |name: &str| Choice { workloads: vec![name.to_owned()], ..Choice::default() };
    let plan = Profile::Quick.plan(&choice("4k-randwrite-d32")).expect("a workload of the profile");
    assert_eq!(plan.tasks.len(), 1);
    let refused = Profile::Quick.plan(&choice("4k-randwrite-d33")).expect_err("no such workload");
    assert!(refused.remedy.contains("4k-randwrite-d32"), "{refused:?}");
}
