use crate::catalog::{keys, ops, selection, tenants, thresholds};
use crate::model::{Model, Op, apply};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use scheduler_impact_index::{ImpactIndex, Query, QueryKey, Thresholds, Want};
use scheduler_model::purl::ProductKey;
use scheduler_model::{ImageDigest, Selection, TenantId};

/// In how many cases each path of the index was taken.
#[derive(Debug, Default)]
struct Taken {
    in_place: u32,
    lists: u32,
    paged: u32,
    bits: u32,
    retired: u32,
    compacted: u32,
    empty_images: u32,
    all_filters: u32,
    narrowed: u32,
    touched: u32,
}

impl Taken {
    fn note(&mut self, index: &ImpactIndex, model: &Model, queries: &[Asked]) {
        let (shapes, stats) = (index.shapes(), index.stats());
        let filters = |selection: &Selection| {
            let Selection { namespaces, repositories, digests, labels, include_tags, .. } = selection;
            [namespaces, repositories, include_tags].iter().all(|texts| !texts.is_empty())
                && !digests.is_empty()
                && !labels.is_empty()
        };
        let any = |is_so: &dyn Fn(&Query<'_>) -> bool| {
            queries.iter().any(|(keys, selection, usage_only)| {
                let of = |tenant| Query { tenant, selection, keys: keys.as_deref(), usage_only: *usage_only };
                tenants().iter().any(|tenant| is_so(&of(tenant)))
            })
        };
        for (count, is_so) in [
            (&mut self.in_place, shapes.in_place > 0),
            (&mut self.lists, shapes.lists > 0),
            (&mut self.paged, shapes.paged > 0),
            (&mut self.bits, shapes.bits > 0),
            (&mut self.retired, stats.retired > 0),
            (&mut self.compacted, stats.generation > 0),
            (&mut self.empty_images, model.0.values().any(|image| image.components.is_empty())),
            (&mut self.all_filters, any(&|query| filters(query.selection))),
            (&mut self.narrowed, any(&|query| index.resolve(query, Want::default()).narrowed_away > 0)),
            (&mut self.touched, any(&|query| index.resolve(query, Want::default()).candidates > 0)),
        ] {
            *count += u32::from(is_so);
        }
    }

    fn each(&self) -> [u32; 10] {
        let Self { in_place, lists, paged, bits, retired, .. } = *self;
        let Self { compacted, empty_images, all_filters, narrowed, touched, .. } = *self;
        [in_place, lists, paged, bits, retired, compacted, empty_images, all_filters, narrowed, touched]
    }
}

/// Keys, a selection, and whether use counts.
type Asked = (Option<Vec<QueryKey>>, Selection, bool);

#[test]
fn p01_resolve_equals_the_brute_force_join() {
    let cases = crate::cases(1000);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let queries = prop::collection::vec((keys(), selection(), any::<bool>()), 1..6);
    let taken = std::cell::RefCell::new(Taken::default());
    let tried = TestRunner::new(config).run(&(ops(60), queries, thresholds()), |(ops, queries, thresholds)| {
        let (model, index) = (Model::of(&ops), ImpactIndex::in_memory(thresholds));
        apply(&index, 1, &ops);
        prop_assert_eq!(index.sequence(), ops.len() as u64);
        prop_assert_eq!(index.stats().images, model.0.len() as u64);
        for (keys, selection, usage_only) in &queries {
            for tenant in &tenants() {
                model.check(&index, &Query { tenant, selection, keys: keys.as_deref(), usage_only: *usage_only });
            }
        }
        taken.borrow_mut().note(&index, &model, &queries);
        Ok(())
    });
    tried.unwrap_or_else(|failed| panic!("{failed}"));
    let taken = taken.into_inner();
    eprintln!("of {cases} cases: {taken:?}");
    assert!(taken.each().iter().all(|&count| count >= cases / 50), "a path was hardly taken: {taken:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p02_what_other_tenants_have_changes_no_answer(
        ops in ops(40), keys in keys(), selection in selection(), usage_only in any::<bool>(), thresholds in thresholds(),
    ) {
        let tenant = &tenants()[0];
        let alone = ImpactIndex::in_memory(thresholds.clone());
        let together = ImpactIndex::in_memory(thresholds);
        let own: Vec<Op> = ops.iter().filter(|op| op.tenant == *tenant).cloned().collect();
        apply(&alone, 1, &own);
        apply(&together, 1, &ops);
        let query = Query { tenant, selection: &selection, keys: keys.as_deref(), usage_only };
        let want = Want { sample: usize::MAX, explain: usize::MAX, by_repository: usize::MAX, digests: true };
        let (mut alone, mut together) = (alone.resolve(&query, want), together.resolve(&query, want));
        // Samples come in the order of ordinals, which a compaction keeps.
        for answer in [&mut alone, &mut together] {
            (answer.images, answer.sequence, answer.generation) = Default::default();
        }
        prop_assert_eq!(alone, together);
    }

    #[test]
    fn p09_an_index_equals_its_rebuild(ops in ops(60), thresholds in thresholds()) {
        let (lived, rebuilt) = (ImpactIndex::in_memory(thresholds), ImpactIndex::in_memory(Thresholds::default()));
        apply(&lived, 1, &ops);
        let model = Model::of(&ops);
        let last: Vec<Op> = model.0.iter()
            .map(|((tenant, digest), image)| Op { tenant: tenant.clone(), digest: digest.clone(), put: Some(image.clone()) })
            .collect();
        apply(&rebuilt, 1, &last);
        prop_assert_eq!(lived.verify_against(&rebuilt), Ok(()));
        prop_assert_eq!(rebuilt.verify_against(&lived), Ok(()));
    }

    #[test]
    fn p09_verify_finds_any_difference(ops in ops(40), other in ops(3)) {
        let (here, there) = (ImpactIndex::in_memory(Thresholds::default()), ImpactIndex::in_memory(Thresholds::default()));
        apply(&here, 1, &ops);
        apply(&there, 1, &ops);
        apply(&there, ops.len() as u64 + 1, &other);
        let mut changed = Model::of(&ops);
        let before = format!("{:?}", canonical(&changed));
        other.iter().for_each(|op| changed.apply(op));
        let equal = before == format!("{:?}", canonical(&changed));
        prop_assert_eq!(here.verify_against(&there).is_ok(), equal);
    }

    #[test]
    fn changes_that_are_in_already_are_skipped(ops in ops(40), cut in 0_usize..40, thresholds in thresholds()) {
        let cut = cut.min(ops.len());
        let (once, replayed) = (ImpactIndex::in_memory(thresholds.clone()), ImpactIndex::in_memory(thresholds));
        apply(&once, 1, &ops);
        apply(&replayed, 1, &ops[..cut]);
        apply(&replayed, 1, &ops);
        apply(&replayed, 1, &ops[..cut]);
        prop_assert_eq!(replayed.sequence(), ops.len() as u64);
        prop_assert_eq!(once.verify_against(&replayed), Ok(()));
        prop_assert_eq!(once.stats().images, replayed.stats().images);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(100), failure_persistence: None, ..ProptestConfig::default() })]

    /// Many repositories of unequal sizes, and any share of their images.
    #[test]
    fn the_largest_repositories_are_those_of_a_full_count(
        repositories in prop::collection::vec(0_u8..40, 1..300), touched in prop::collection::vec(0_u8..10, 300),
        share in 0_u8..11, top in 1_usize..12,
    ) {
        let index = ImpactIndex::in_memory(Thresholds::default());
        let is_touched = |at: usize| touched[at] < share;
        let ops: Vec<Op> = repositories.iter().enumerate().map(|(at, repository)| {
            // Squared, so that some repositories are far larger than others.
            let name = format!("r{}", usize::from(*repository).pow(2) / 40);
            let op = crate::naming::put(0, &name, if is_touched(at) { &["pkg:npm/a@1"] } else { &["pkg:npm/b@1"] });
            Op { digest: ImageDigest::of(&at.to_le_bytes()), ..op }
        }).collect();
        apply(&index, 1, &ops);
        let mut counts = std::collections::BTreeMap::new();
        for (_, op) in ops.iter().enumerate().filter(|(at, _)| is_touched(*at)) {
            *counts.entry(op.put.as_ref().unwrap().place.repository.clone()).or_insert(0_u64) += 1;
        }
        let mut expected: Vec<(String, u64)> = counts.into_iter().collect();
        expected.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        expected.truncate(top);
        let keys = [QueryKey::new(ProductKey::parse("pkg:npm/a").unwrap().0, None)];
        let query = Query { tenant: &tenants()[0], selection: &Selection::default(), keys: Some(&keys), usage_only: false };
        let found = index.resolve(&query, Want { by_repository: top, ..Want::default() });
        prop_assert_eq!(found.by_repository, expected);
    }
}

/// What of the catalog an index can tell apart.
fn canonical(model: &Model) -> Vec<String> {
    let images = model.0.iter().map(|(name, image)| {
        let mut components = std::collections::BTreeMap::new();
        for (at, component) in image.components.iter().enumerate() {
            let used = image.used.as_ref().is_none_or(|used| used.contains(&(at as u32)));
            let own: Vec<_> = component.names().map(|(name, version)| format!("{name:?}{version:?}")).collect();
            *components.entry(own).or_insert(false) |= used;
        }
        format!("{name:?} {:?} {components:?}", image.place)
    });
    images.collect()
}

#[test]
fn an_unknown_tenant_has_nothing() {
    let index = ImpactIndex::in_memory(Thresholds::default());
    let tenant = TenantId::try_from("nobody".to_owned()).unwrap();
    let selection = Selection::default();
    Model::default().check(&index, &Query { tenant: &tenant, selection: &selection, keys: None, usage_only: true });
}

#[test]
fn p01_images_of_none_one_and_a_hundred_thousand_components_are_found() {
    let index = ImpactIndex::in_memory(Thresholds::default());
    let purls: Vec<String> = (0..100_000).map(|at| format!("pkg:npm/lib-{}@{at}", at / 3)).collect();
    let op = |at: usize, purls: &[String]| {
        crate::naming::put(at, "a", &purls.iter().map(String::as_str).collect::<Vec<_>>())
    };
    apply(&index, 1, &[op(0, &[]), op(1, &purls[77_777..77_778]), op(2, &purls)]);
    let (tenant, selection) = (&tenants()[0], &Selection::default());
    let check = |raw: &str, expected: u64| {
        let keys = [QueryKey::new(ProductKey::parse(raw).unwrap().0, None)];
        let query = Query { tenant, selection, keys: Some(&keys), usage_only: false };
        assert_eq!(index.resolve(&query, Want::default()).candidates, expected, "{raw}");
    };
    check("pkg:npm/lib-25925@77777", 2);
    check("pkg:npm/lib-25925", 2);
    check("pkg:npm/lib-0@0", 1);
    check("pkg:npm/lib-33333@99999", 1);
    check("pkg:npm/lib-33333@0", 0);
    assert_eq!((index.stats().images, index.stats().postings), (3, 100_001));
}
