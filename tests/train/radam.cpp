// RAdam against PyTorch's, through the step at which it begins to divide.
#include <doctest/doctest.h>

#include <normplace/train/optimizer.hpp>
#include <normplace/train/radam.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

static_assert(Optimizer<RAdam<float>, float> && Optimizer<RAdam<double>, double>);

namespace {

AdamOptions options_of(const nlohmann::json& json) {
    const AdamOptions options;
    return {.beta1 = json.value("beta1", options.beta1),
            .beta2 = json.value("beta2", options.beta2),
            .epsilon = json.value("epsilon", options.epsilon),
            .weight_decay = json.value("weight_decay", options.weight_decay),
            .decoupled_weight_decay = json.value("decoupled_weight_decay", options.decoupled_weight_decay)};
}

}  // namespace

TEST_CASE_TEMPLATE("every step is PyTorch's", T, float, double) {
    check_against_pytorch<T>("RAdam", [](const ParameterList<T>& list, const nlohmann::json& options) {
        return RAdam<T>(list, options_of(options));
    });
}

TEST_CASE_TEMPLATE("a saved state goes on bit for bit", T, float, double) {
    check_resuming<T>([](const ParameterList<T>& list) { return RAdam<T>(list, {.weight_decay = 0.01}); });
}

TEST_CASE("threads and the other parameters change nothing") {
    check_threads<float>([](const ParameterList<float>& list) { return RAdam<float>(list); });
}

TEST_CASE_TEMPLATE("edges", T, float, double) {
    check_edges<T>("RAdam", [](const ParameterList<T>& list) { return RAdam<T>(list); });
}

TEST_CASE("five steps are as large as the gradient, the sixth is much smaller than Adam's") {
    ParametersByHand<double> parameters;
    parameters.add("w", {1}, {0.0});
    const ParameterList<double> list = parameters.list();
    RAdam<double> optimizer(list);
    set_gradients(list, 100.0);
    for (int t = 1; t <= 5; ++t) {
        const double before = list[0].value[0];
        optimizer.step(0.01);
        CHECK(before - list[0].value[0] == doctest::Approx(1.0).epsilon(1e-12));
    }
    const double before = list[0].value[0];
    optimizer.step(0.01);
    const double sixth = before - list[0].value[0];
    CHECK(sixth > 0.0);
    CHECK(sixth < 0.1 * 0.01);  // Adam's is 0.01
}

TEST_CASE("options out of range are refused in its name") {
    const ParameterList<float> list;
    const auto make = [&](const AdamOptions& options) { RAdam<float>{list, options}; };
    CHECK_THROWS_WITH(make({.beta2 = 1.0}), "RAdam: beta2 is 1, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.epsilon = -1.0}), "RAdam: epsilon is -1, expected a finite number above 0");
}
