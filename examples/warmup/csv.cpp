// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstdio>

#include "files.hpp"

namespace warmup {

namespace np = normplace;

namespace {

constexpr np::Moment none{np::not_available, np::not_available};

class Rows {
public:
    Rows(std::ostream& stream, const std::string& placement) : stream_(stream), placement_(placement) {}

    void add(const char* quantity, double at, double predicted, const np::Moment& measured) {
        stream_ << placement_ << ',' << quantity << ',' << number(at) << ',' << number(predicted) << ','
                << number(measured.value) << ',' << number(measured.standard_error) << '\n';
    }
    void add(const char* quantity, const std::vector<SizePoint>& points) {
        for (const SizePoint& point : points)
            add(quantity, static_cast<double>(point.size), point.predicted, point.measured);
    }

private:
    static std::string number(double value) {
        if (!std::isfinite(value)) return "";
        char text[40];
        std::snprintf(text, sizeof text, "%.9g", value);
        return text;
    }

    std::ostream& stream_;
    const std::string& placement_;
};

}  // namespace

void write_csv(std::ostream& stream, const std::vector<PlacementResult>& results) {
    stream << "placement,quantity,at,predicted,measured,standard_error\n";
    for (const PlacementResult& result : results) {
        Rows rows(stream, result.predicted.placement);
        rows.add("eta_half", np::not_available, result.predicted.eta_half.value,
                 result.measured ? result.measured->eta_half : none);
        rows.add("response", np::not_available, result.predicted.response.value,
                 result.measured ? result.measured->response : none);
        rows.add("largest_learning_rate", np::not_available, result.advice.largest_learning_rate, none);
        rows.add("warm_up_steps", np::not_available, result.advice.warm_up_steps, none);
        for (const CorrelationPoint& point : result.correlation)
            rows.add("token_correlation", point.learning_rate, point.predicted, point.measured);
        rows.add("eta_half_over_layers", result.depths);
        rows.add("eta_half_over_width", result.widths);
        if (!result.ladder) continue;
        for (const Rung& rung : result.ladder->rungs) {
            rows.add("loss_without_warm_up", rung.learning_rate, np::not_available,
                     {rung.without.loss, np::not_available});
            if (rung.with)
                rows.add("loss_with_warm_up", rung.learning_rate, np::not_available,
                         {rung.with->loss, np::not_available});
        }
    }
}

}  // namespace warmup
