// SPDX-License-Identifier: BSD-3-Clause
//
// The placements and norms that PyTorch does not have, against their papers' formulas written in it
// (tests/golden/generate_placements.py): outputs and all gradients.
#include <doctest/doctest.h>

#include <nn/golden.hpp>
#include <normplace/nn/dyt.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/visit.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

// Two whose papers and authors' code differ from the catalogue's form.

struct KeelThroughout {  // no first layer without
    static constexpr auto name = "keel-throughout";
    static constexpr auto formula = norm<out>(Keel::alpha * x + f(norm<in>(x)));
    static constexpr bool final_norm = false;
};
struct LipsFormerBefore {  // the norm in the branch
    static constexpr auto name = "lips-former-before";
    static constexpr auto formula = x + LipsFormer::a * f(norm(x));
    static constexpr bool final_norm = false;
};

template <class T, class N = LayerNorm<T>>
void check_encoder(const std::string& file, const AnyPlacement& placement) {
    CAPTURE(file);
    Golden golden(file);
    const AnyEncoder<T, N> encoder(placement, {.layers = golden.config.at("layers"),
                                               .width = golden.config.at("width"),
                                               .heads = golden.config.at("heads"),
                                               .feed_forward = golden.config.at("feed_forward"),
                                               .epsilon = golden.config.at("epsilon")});
    AnyEncoder<T, N> model = encoder;
    typename AnyEncoder<T, N>::Cache cache;
    typename AnyEncoder<T, N>::Gradients gradients;
    const auto parameters = golden_parameters<T>(model, gradients);
    golden.fill(parameters);

    Activations<T> y, dx;
    model.forward(golden.activations<T>("x"), y, cache);
    golden.check("y", view(y));
    model.backward(golden.activations<T>("dy"), dx, cache, gradients);
    golden.check("dx", view(dx));
    golden.check_gradients(parameters);
    golden.check_all_read();
}

}  // namespace

TEST_CASE_TEMPLATE("the placements beside PyTorch's own", T, float, double) {
    for (const std::string name : {"mix-ln", "admin", "skip-init", "layer-scale", "depth-scaled", "sub-ln",
                                   "norm-former", "hybrid-norm", "hybrid-norm-star", "parallel", "parallel-one-norm",
                                   "rezero", "qk-norm", "resi-dual", "b2t", "hyper-connections"})
        check_encoder<T>(name, placement_named(name));
    check_encoder<T>("keel-first-pre-ln", any_placement<Keel>);
    check_encoder<T>("keel", any_placement<KeelThroughout>);
}

TEST_CASE("the norms beside PyTorch's own") {
    check_encoder<double, CentreNorm<double>>("lips-former-post", any_placement<LipsFormer>);
    check_encoder<float, CentreNorm<float>>("lips-former", any_placement<LipsFormerBefore>);
    check_encoder<double, UnitNorm<double>>("ngpt", any_placement<NGPT>);
    check_encoder<double, ScaleNorm<double>>("pre-ln-scale-norm", any_placement<PreLN>);
    check_encoder<double, DyT<double>>("pre-ln-dyt", any_placement<PreLN>);
    check_encoder<double, UnitOffsetLayerNorm<double>>("pre-ln-unit-offset", any_placement<PreLN>);
}
