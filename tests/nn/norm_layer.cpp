// What is asked of a norm, by a model that lacks one thing at a time; and that the library's norms keep what
// SummingNorm says.
#include <doctest/doctest.h>

#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/dyt.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/nn/norm_layer.hpp>
#include <normplace/placement/catalogue.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

struct WholeNorm {
    using Scalar = double;
    struct Cache {};
    struct Gradients {};
    WholeNorm() = default;
    explicit WholeNorm(const NormOptions&) {}
    void forward(const Activations<double>&, Activations<double>&, Cache&) const {}
    void backward(const Activations<double>&, Activations<double>&, Cache&, Gradients&) const {}
};
struct WithoutOptions : WholeNorm {
    WithoutOptions() = default;
};
struct WithoutDefault : WholeNorm {
    using WholeNorm::WholeNorm;
    WithoutDefault() = delete;
};
struct WithoutForward : WholeNorm {
    using WholeNorm::WholeNorm;
    void forward();
};
struct WithoutBackward : WholeNorm {
    using WholeNorm::WholeNorm;
    void backward();
};
struct WithoutCache : WholeNorm {
    using WholeNorm::WholeNorm;

private:
    using WholeNorm::Cache;
};
struct ChangingForward : WholeNorm {
    using WholeNorm::WholeNorm;
    void forward(const Activations<double>&, Activations<double>&, Cache&) {}
};
static_assert(NormLayer<WholeNorm>);
static_assert(!NormLayer<WithoutOptions> && !NormLayer<WithoutDefault> && !NormLayer<WithoutForward> &&
              !NormLayer<WithoutBackward> && !NormLayer<WithoutCache> && !NormLayer<ChangingForward>);
static_assert(!NormLayer<int>);

struct HalvedForward : RMSNorm<double> {  // its forward_sum is not its own
    using RMSNorm<double>::RMSNorm;
    void forward(const Activations<double>&, Activations<double>&, Cache&) const {}
};
struct ClaimsSums : WholeNorm {
    using WholeNorm::WholeNorm;
    using SumsTerms = ClaimsSums;
};
static_assert(NormLayer<HalvedForward> && !SummingNorm<HalvedForward>);
static_assert(NormLayer<ClaimsSums> && !SummingNorm<ClaimsSums>);
static_assert(!SummingNorm<WholeNorm>);

}  // namespace

TEST_CASE_TEMPLATE("a norm of a sum, with a factor on its gradient and gradients that join it", N, LayerNorm<double>,
                   RMSNorm<double>, UnitOffsetLayerNorm<double>, UnitOffsetRMSNorm<double>, ScaleNorm<double>,
                   UnitNorm<double>, CentreNorm<double>, DyT<double>) {
    static_assert(SummingNorm<N>);
    for (const std::size_t d : {1, 3, 16}) {
        N norm(NormOptions{.width = d, .epsilon = 0.01});
        randomize_parameters(norm, 1);
        const Activations<double> x = random_activations(2, 3, d, 2), z = random_activations(2, 3, d, 3),
                                  dy = random_activations(2, 3, d, 4);
        Activations<double> sum = x, y, dx, y_of_sum = z, dx_of_sum = dy;
        for (std::size_t i = 0; i < sum.size(); ++i) sum.data()[i] = 2.0 * x.data()[i] - z.data()[i];
        typename N::Cache cache;
        typename N::Gradients gradients, gradients_of_sum;
        zero_gradients(norm, gradients);
        zero_gradients(norm, gradients_of_sum);
        norm.forward(sum, y, cache);
        norm.backward(dy, dx, cache, gradients);
        const detail::Term<double> terms[] = {{2.0, x.data()}, {-1.0, y_of_sum.data()}}, residual{0.5, x.data()};
        norm.forward_sum(terms, 2, detail::shape_of(x), y_of_sum, cache);
        norm.backward_sum(dx_of_sum, 3.0, &residual, 1, dx_of_sum, cache, gradients_of_sum);
        double difference = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            difference = std::max(difference, std::abs(y_of_sum.data()[i] - y.data()[i]));
            difference =
                std::max(difference, std::abs(dx_of_sum.data()[i] - (3.0 * dx.data()[i] + 0.5 * x.data()[i])) / 10.0);
        }
        for_each_parameter(
            [&](const std::string&, const auto&, const auto& once, const auto& thrice) {
                for (std::size_t i = 0; i < once.size(); ++i)
                    difference = std::max(difference, std::abs(thrice.data()[i] - 3.0 * once.data()[i]) / 10.0);
            },
            norm, gradients, gradients_of_sum);
        CAPTURE(d);
        CHECK(difference < 1e-13);  // epsilon 0.01: nothing is longer than 10
    }
}

TEST_CASE("which norms are asked whether they make sense with a placement: those of which the kind is known") {
    static_assert(explain_norm<NGPT, UnitNorm<float>>() && explain_norm<NGPT, AnyNorm<float>>());
    static_assert(explain_norm<DeepNorm, RMSNorm<float>>() && explain_norm<DeepNorm, WholeNorm>());
    struct Named : WholeNorm {
        std::string kind = "the user's own";
    };
    static_assert(explain_norm<NGPT, Named>());
}
