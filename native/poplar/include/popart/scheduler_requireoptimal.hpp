// How hard the scheduler of ops works.
#ifndef popart_scheduler_requireoptimal_hpp
#define popart_scheduler_requireoptimal_hpp

namespace popart {

enum class RequireOptimalSchedule { No = 0, Yes = 1 };

}  // namespace popart

#endif  // popart_scheduler_requireoptimal_hpp
