// SGD with momentum, dampening, Nesterov's step and L2 decay, against PyTorch's.
#include <doctest/doctest.h>

#include <normplace/train/optimizer.hpp>
#include <normplace/train/sgd.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

static_assert(Optimizer<SGD<float>, float> && Optimizer<SGD<double>, double>);

namespace {

SGDOptions sgd_options(const nlohmann::json& json) {
    return {.momentum = json.value("momentum", 0.0),
            .dampening = json.value("dampening", 0.0),
            .weight_decay = json.value("weight_decay", 0.0),
            .nesterov = json.value("nesterov", false)};
}

/// With the first step told apart from the others.
template <class T>
SGD<T> dampened(const ParameterList<T>& list) {
    return SGD<T>(list, {.momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01});
}

}  // namespace

TEST_CASE_TEMPLATE("every step is PyTorch's", T, float, double) {
    check_against_pytorch<T>("SGD", [](const ParameterList<T>& list, const nlohmann::json& options) {
        return SGD<T>(list, sgd_options(options));
    });
}

TEST_CASE_TEMPLATE("a saved state goes on bit for bit", T, float, double) {
    check_resuming<T>([](const ParameterList<T>& list) { return dampened(list); });
    check_resuming<T>([](const ParameterList<T>& list) { return SGD<T>(list); });
}

TEST_CASE("threads and the other parameters change nothing") {
    check_threads<float>([](const ParameterList<float>& list) { return dampened(list); });
    check_threads<float>([](const ParameterList<float>& list) { return SGD<float>(list); });
}

TEST_CASE_TEMPLATE("edges", T, float, double) {
    check_edges<T>("SGD", [](const ParameterList<T>& list) { return dampened(list); });
    check_edges<T>("SGD", [](const ParameterList<T>& list) { return SGD<T>(list); });
}

TEST_CASE("options out of range are refused with their values") {
    const ParameterList<float> list;
    const auto make = [&](const SGDOptions& options) { SGD<float>{list, options}; };
    CHECK_THROWS_WITH(make({.momentum = 1.0}), "SGD: momentum is 1, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.momentum = -0.5}), "SGD: momentum is -0.5, expected a number in [0, 1)");
    CHECK_THROWS_WITH(make({.dampening = 1.5}), "SGD: dampening is 1.5, expected a number in [0, 1]");
    CHECK_THROWS_WITH(make({.weight_decay = -1.0}), "SGD: weight decay is -1, expected a finite number of at least 0");
    const char* nesterov =
        "SGD: nesterov with momentum 0 and dampening 0, expected a momentum above 0 and no dampening";
    CHECK_THROWS_WITH(make({.nesterov = true}), nesterov);
    CHECK_THROWS_WITH(
        make({.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
        "SGD: nesterov with momentum 0.9 and dampening 0.1, expected a momentum above 0 and no dampening");
}
